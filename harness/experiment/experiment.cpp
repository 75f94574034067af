#include "harness/experiment/experiment.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "harness/experiment/published.h"
#include "inference/engine/checkpoint_tokenizer.h"
#include "inference/policy/policy_checks.h"
#include "methods/model_check.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

DType weight_dtype(const std::string& name, Math math, const Checkpoint& checkpoint) {
  if (needs_bf16_weights(math)) return DType::kBF16;
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return checkpoint.stored_dtype();
}

/// Rejects prompts that exceed the model's positions, because its answers would be meaningless.
/// Times and memory may be measured at any length, and the manifest may allow such prompts.
void check_positions(const Manifest& manifest, const ResolvedModel& model) {
  const double most = model.checkpoint.config.longest_prompt();
  if (manifest.isolated || manifest.past_positions || manifest.max_prompt_tokens <= most) return;
  throw input_error("{}: /max_prompt_tokens: found {}, expected at most the {:.0f} positions of {}",
                    manifest.path.string(), manifest.max_prompt_tokens, most,
                    printable(model.entry.name));
}

/// Rejects probes of layers and heads that the model does not have.  In smoke runs, whose model has
/// few, such probes fail individually.
void check_probes(const Manifest& manifest, const ResolvedModel& model) {
  if (!manifest.smoke.empty()) return;
  const ModelConfig& config = model.checkpoint.config;
  for (std::size_t i = 0; i < manifest.probes.size(); ++i) {
    const ProbeSpec& probe = manifest.probes[i];
    for (const auto& [name, count] : {std::pair("layer", config.layers), {"head", config.heads}}) {
      const std::string_view of_probe = name;  // the parameters of its method are checked elsewhere
      const auto is_it = [&](const ParameterInfo& p) { return p.name == of_probe; };
      const std::vector<ParameterInfo>& own = probe.info().parameters;
      if (std::none_of(own.begin(), own.end(), is_it)) continue;
      const std::optional<std::string> value = probe.setting(name);
      if (!value || std::stoi(*value) < count) continue;
      throw input_error("{}: /probes/{}: {}: {}: found {}, expected at most {}, the last of {}",
                        manifest.path.string(), i, probe.info().name, name, *value, count - 1,
                        printable(model.entry.name));
    }
  }
}

/// Rejects methods, including those of probes, whose settings do not fit the model.  In smoke runs,
/// whose model has another shape, such methods fail individually.
void check_settings(const Manifest& manifest, const ResolvedModel& model) {
  if (!manifest.smoke.empty()) return;
  const auto check = [&](const char* key, std::size_t i, const Method& method) {
    with_error_prefix(
        fmt::format("{}: /{}/{}: {}", manifest.path.string(), key, i, printable(model.entry.name)),
        [&] { check_model(method, model.checkpoint.config); });
  };
  for (std::size_t i = 0; i < manifest.methods.size(); ++i)
    check("methods", i, manifest.methods[i]);
  for (std::size_t i = 0; i < manifest.probes.size(); ++i) {
    if (const auto& method = manifest.probes[i].method()) check("probes", i, *method);
  }
}

/// Rejects methods whose selection or eviction is incompatible with these histories.
void check_methods(const Manifest& manifest) {
  const bool evicts_in_answers = std::any_of(manifest.histories.begin(), manifest.histories.end(),
                                             [](History h) { return h != History::kCompressOnce; });
  for (std::size_t i = 0; i < manifest.methods.size(); ++i) {
    with_error_prefix(fmt::format("{}: /methods/{}", manifest.path.string(), i),
                      [&] { check_eviction(manifest.methods[i].policies(), evicts_in_answers); });
  }
}

/// The common metric of all dialogues.
std::string metric_of(const std::vector<Dialogue>& dialogues, const std::string& label) {
  const std::string& metric = dialogues.front().metric;
  for (const Dialogue& d : dialogues) {
    if (d.metric != metric) {
      throw input_error(
          "dataset {}: found the metrics \"{}\" and \"{}\", expected one, or a \"metric\" in the "
          "manifest",
          printable(label), printable(metric), printable(d.metric));
    }
  }
  return metric;
}

/// Keeps only the first dialogues of the entry's task.
void keep_only(const DatasetEntry& entry, std::vector<Dialogue>& dialogues) {
  std::set<std::string_view> tasks;
  for (const Dialogue& d : dialogues) tasks.insert(d.task);
  if (!tasks.contains(entry.only)) {
    throw input_error("dataset {}: found no dialogue of the task \"{}\" (\"only\"), expected {}",
                      printable(entry.label), printable(entry.only),
                      nearest_or_all(entry.only, std::vector(tasks.begin(), tasks.end())));
  }
  std::erase_if(dialogues, [&](const Dialogue& d) { return d.task != entry.only; });
  if (entry.limit > 0 && dialogues.size() > entry.limit) dialogues.resize(entry.limit);
}

/// One line with the source of a dataset.
std::string dataset_description(const DatasetEntry& entry) {
  return fmt::format("{}: source {}, seed {}, turns {}, length {}, depth {}{}{}{}", entry.name,
                     entry.source.empty() ? "-" : entry.source, entry.seed, entry.turns,
                     entry.length, entry.depth ? fmt::format("{}", *entry.depth) : "-",
                     entry.official_prompts ? ", official prompts" : "",
                     entry.only.empty() ? "" : ", only " + entry.only,
                     entry.leave_out.empty() ? "" : ", without " + entry.leave_out);
}

}  // namespace

Position own_position(const std::vector<Dialogue>& dialogues, const std::string& dataset) {
  if (dialogues.empty()) {
    throw input_error("dataset {}: found no dialogues, expected at least one", printable(dataset));
  }
  if (const std::optional<Position> one = common_position(dialogues)) return *one;
  throw input_error(
      "dataset {}: found questions at several positions, expected one \"position\" in all of its "
      "turns, or \"positions\" of the manifest (dialogues: --positions)",
      printable(dataset));
}

ResolvedDataset resolve_dataset(const DatasetEntry& entry, const Manifest& manifest,
                                const Locations& locations, std::size_t limit) {
  const Dataset& dataset = find_dataset(entry.name, manifest.path.string() + ": /datasets");
  BuildOptions options;
  options.turns = entry.turns;
  options.seed = entry.seed;
  options.limit = entry.only.empty() ? entry.limit : 0;
  options.length = entry.length;
  options.depth = entry.depth;
  options.fields = entry.fields;
  options.official_prompts = entry.official_prompts;
  if (!entry.leave_out.empty()) options.leave_out = manifest.path.parent_path() / entry.leave_out;
  ResolvedDataset out;
  out.entry = entry;
  out.task = !entry.task.empty() ? entry.task : entry.only.empty() ? dataset.task : entry.only;
  out.metric = entry.metric;
  out.postprocess = entry.postprocess.empty() ? dataset.postprocess : entry.postprocess;
  find_postprocess(out.postprocess, manifest.path.string() + ": dataset " + entry.label);
  const std::string source = locations.dataset_path(entry, manifest);
  if (dataset.needs_source && source.empty()) {
    const bool own = dataset.has_fields;  // a single user-provided file
    throw input_error(
        "dataset {}: found no files for it, expected --data {}={}, a \"source\" in the manifest, "
        "or {} below $TURNBENCH_DATA",
        printable(entry.label), own ? printable(entry.label) : dataset.collection,
        own ? "FILE" : "DIR", dataset.collection);
  }
  const auto load = [&] { return load_dialogues(entry.name, source, options); };
  out.dialogues = source.empty() ? with_error_prefix(manifest.path.string(), load) : load();
  if (!entry.only.empty()) keep_only(entry, out.dialogues);
  if (out.dialogues.empty())
    throw input_error("dataset {}: found no dialogues, expected at least one", entry.label);
  out.positions = manifest.positions;
  if (manifest.own_positions) out.positions = {own_position(out.dialogues, entry.label)};
  if (out.metric.empty()) out.metric = metric_of(out.dialogues, entry.label);
  find_metric(out.metric, manifest.path.string() + ": dataset " + entry.label);
  // The hash covers all dialogues, so that a run with --limit belongs to the same cells.
  std::string text;
  for (const Dialogue& d : out.dialogues) text += to_json_line(d) + "\n";
  out.hash = hash_text(text);
  out.size = out.dialogues.size();
  if (limit > 0 && out.dialogues.size() > limit) out.dialogues.resize(limit);
  return out;
}

std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations) {
  if (!metric.needs_segmenter) return nullptr;
  const std::string folder = locations.collection_path(kJieba);
  if (folder.empty()) {
    throw input_error(
        "metric {}: found no dictionary of Chinese words, expected the folder of jieba 0.42.1 with "
        "dict.txt and finalseg/: --data jieba=DIR, or jieba below $TURNBENCH_DATA",
        metric.name);
  }
  return std::make_shared<const Segmenter>(Segmenter::from_jieba(folder));
}

ResolvedModel resolve_model(const ModelEntry& entry, const Locations& locations,
                            const std::filesystem::path& folder) {
  Checkpoint checkpoint = Checkpoint::open(locations.model_path(entry));
  Tokenizer tokenizer = open_tokenizer(checkpoint);
  ChatTemplate chat_template = open_chat_template(entry.chat_template, entry.template_place, folder,
                                                  tokenizer, checkpoint.name);
  const DType dtype = weight_dtype(entry.dtype, entry.math, checkpoint);
  std::string hash = hash_text(checkpoint.content_hash() + tokenizer_hash(checkpoint));
  return {entry, std::move(checkpoint), std::move(tokenizer), chat_template,
          dtype, std::move(hash)};
}

PromptRenderer Experiment::renderer(const ResolvedModel& model) const {
  return {model.tokenizer, model.chat_template, manifest.system_prompt,
          model.checkpoint.config.eos_tokens};
}

Decoding Experiment::decoding(const ResolvedModel& model) const {
  Decoding d;
  d.max_new_tokens = manifest.max_new_tokens;
  d.temperature = manifest.temperature;
  d.seed = manifest.seed;
  d.isolated = manifest.isolated;
  d.link_gbps = manifest.link_gbps;
  d.fidelity = manifest.fidelity;
  // The model's positions, less the answers of a dialogue.
  const std::int64_t positions = model.checkpoint.config.max_positions;
  const std::int64_t own = std::max<std::int64_t>(positions / 2, positions - 2048);
  d.max_prompt_tokens =
      manifest.max_prompt_tokens > 0 ? manifest.max_prompt_tokens : static_cast<int>(own);
  return d;
}

Experiment resolve_experiment(const Manifest& manifest, const Locations& locations,
                              std::size_t limit) {
  Experiment out;
  out.manifest = manifest;
  out.published = read_published(manifest);
  check_methods(manifest);
  for (const ModelEntry& entry : manifest.models) {
    const std::string place =
        fmt::format("{}: /models/{}", manifest.path.string(), out.models.size());
    with_error_prefix(place, [&] {
      out.models.push_back(resolve_model(entry, locations, manifest.path.parent_path()));
    });
    check_positions(manifest, out.models.back());
    check_probes(manifest, out.models.back());
    check_settings(manifest, out.models.back());
  }
  for (const DatasetEntry& entry : manifest.datasets)
    out.datasets.push_back(resolve_dataset(entry, manifest, locations, limit));
  for (const ResolvedDataset& dataset : out.datasets) {
    if (!out.segmenter)
      out.segmenter = open_segmenter(find_metric(dataset.metric, dataset.entry.label), locations);
  }
  return out;
}

StoredExperiment stored_experiment(const Experiment& experiment) {
  const Manifest& manifest = experiment.manifest;
  StoredExperiment out;
  out.name = manifest.name;
  out.title = manifest.title;
  out.manifest = manifest.text;
  out.directory = (std::filesystem::current_path() / manifest.path).parent_path().string();
  out.published = experiment.published;
  for (const ResolvedModel& m : experiment.models) {
    const ModelConfig& c = m.checkpoint.config;
    out.models.emplace_back(
        m.hash, fmt::format("{}: {}, {} layers, {} heads, {} KV heads, head_dim {}, {} parameters",
                            m.checkpoint.name, c.family, c.layers, c.heads, c.kv_heads, c.head_dim,
                            c.parameter_count()));
  }
  for (const ResolvedDataset& d : experiment.datasets) {
    out.datasets.emplace_back(d.hash, dataset_description(d.entry));
    for (const Dialogue& one : d.dialogues) {
      out.dialogues.push_back(
          {d.hash, one.id, static_cast<int>(one.turns.size()), to_json_line(one)});
    }
  }
  return out;
}

}  // namespace turnbench
