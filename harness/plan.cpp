#include "harness/plan.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "harness/protocol.h"
#include "harness/published.h"
#include "inference/embedded_model.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// How a cell's canonical method begins if it is a probe.
constexpr std::string_view kProbePrefix = "probe ";

/// NAME under the directory that an environment variable names, or "".
std::string under_environment(const char* variable, const std::string& name) {
  const char* root = std::getenv(variable);
  if (root == nullptr || *root == '\0') return "";
  const fs::path path = fs::path(root) / name;
  return is_there(path) ? path.string() : "";
}

std::string model_path(const ModelEntry& entry, const Locations& locations) {
  const auto given = locations.models.find(entry.name);
  if (given != locations.models.end()) return given->second;
  if (!entry.path.empty()) return entry.path;
  if (entry.name == "tiny" || entry.name.starts_with("random:") || is_folder(entry.name))
    return entry.name;
  const std::string found = under_environment("TURNBENCH_MODELS", entry.name);
  if (!found.empty()) return found;
  throw input_error(
      "model {}: found no directory for it, expected --model {}=DIR, a \"path\" in the manifest, "
      "or {} below $TURNBENCH_MODELS",
      printable(entry.name), printable(entry.name), printable(entry.name));
}

DType weight_dtype(const std::string& name, const Checkpoint& checkpoint) {
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return checkpoint.stored_dtype();
}

/// Refuses prompts that are longer than the model reads: its answers to them would say nothing.
/// Times and memory may be measured at any length.
void check_positions(const Manifest& manifest, const PlannedModel& model) {
  const ModelConfig& config = model.checkpoint.config;
  // Some files tell the positions before they are scaled.
  const double most =
      std::max(static_cast<double>(config.max_positions),
               config.rope.factor * static_cast<double>(config.rope.original_max_positions));
  if (manifest.alone || manifest.max_prompt_tokens <= most) return;
  throw input_error("{}: /max_prompt_tokens: found {}, expected at most the {:.0f} positions of {}",
                    manifest.path.string(), manifest.max_prompt_tokens, most,
                    printable(model.entry.name));
}

/// The metric that all dialogues name.
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

/// One line on where a dataset comes from.
std::string dataset_description(const DatasetEntry& entry) {
  return fmt::format("{}: source {}, seed {}, turns {}, length {}, depth {}{}", entry.name,
                     entry.source.empty() ? "-" : entry.source, entry.seed, entry.turns,
                     entry.length, entry.depth ? fmt::format("{}", *entry.depth) : "-",
                     entry.official_prompts ? ", official prompts" : "");
}

}  // namespace

PlannedDataset load_dataset(const DatasetEntry& entry, const Manifest& manifest,
                            const Locations& locations, std::size_t limit) {
  const Dataset& dataset = find_dataset(entry.name, manifest.path.string() + ": /datasets");
  BuildOptions options;
  options.turns = entry.turns;
  options.seed = entry.seed;
  options.limit = entry.limit;
  options.length = entry.length;
  options.depth = entry.depth;
  options.fields = entry.fields;
  options.official_prompts = entry.official_prompts;
  PlannedDataset out;
  out.entry = entry;
  out.task = entry.task.empty() ? dataset.task : entry.task;
  out.metric = entry.metric;
  out.postprocess = entry.postprocess.empty() ? dataset.postprocess : entry.postprocess;
  find_postprocess(out.postprocess, manifest.path.string() + ": dataset " + entry.label);
  const std::string source = find_source(entry, manifest, locations);
  if (dataset.needs_source && source.empty()) {
    throw input_error(
        "dataset {}: found no files for it, expected --data {}=DIR, a \"source\" in the manifest, "
        "or {} below $TURNBENCH_DATA",
        printable(entry.label), dataset.collection, dataset.collection);
  }
  out.dialogues = load_dialogues(entry.name, source, options);
  if (out.dialogues.empty())
    throw input_error("dataset {}: found no dialogues, expected at least one", entry.label);
  if (out.metric.empty()) out.metric = metric_of(out.dialogues, entry.label);
  find_metric(out.metric, manifest.path.string() + ": dataset " + entry.label);
  // The hash is of all dialogues, so that a run with --limit belongs to the same cells.
  std::string text;
  for (const Dialogue& d : out.dialogues) text += to_json_line(d) + "\n";
  out.hash = hash_text(text);
  out.size = out.dialogues.size();
  if (limit > 0 && out.dialogues.size() > limit) out.dialogues.resize(limit);
  return out;
}

bool is_probe(const Cell& cell) {
  return cell.method_canonical.starts_with(kProbePrefix);
}

bool is_imported(const Cell& cell) {
  return cell.method_canonical.starts_with("imported:");
}

std::optional<std::string> setting_of(const Cell& cell, std::string_view name) {
  const std::string_view canonical = cell.method_canonical;
  if (is_imported(cell)) return std::nullopt;
  if (!is_probe(cell)) return setting_in(canonical, name);
  const std::string_view probe = canonical.substr(kProbePrefix.size());
  return setting_in(probe.substr(0, probe.find(' ')), name);
}

std::string cell_key(const Cell& cell) {
  return hash_text(
      Json::array({cell.model_hash, cell.dataset_hash, cell.position, cell.method_canonical,
                   cell.history, cell.answers, cell.metric, cell.postprocess, cell.protocol})
          .dump());
}

namespace {

/// Gives a cell its key and its place in the tables.  False if an equal one is planned already, as
/// under another label of the same dialogues: what is computed once is shown twice.
bool add_cell(Plan& plan, Cell& cell, std::set<std::string>& planned) {
  cell.key = cell_key(cell);
  plan.cells.push_back(cell);
  return planned.insert(cell.key).second;
}

/// The cells and units of the probes.  Those that look at a dialogue by itself share a unit for
/// each dialogue, those that compare share one for all.  `cell` says what they have in common.
void add_probes(Plan& plan, std::size_t model, std::size_t dataset, Cell cell,
                const std::vector<std::shared_ptr<const Dialogue>>& dialogues,
                std::set<std::string>& planned) {
  std::string ids;
  for (const auto& dialogue : dialogues) ids += dialogue->id + "\n";
  cell.history = name_of(History::kReprefill);  // nothing is evicted
  cell.postprocess = "none";
  for (Answers answers : plan.manifest.answers) {
    std::vector<ProbeCell> single, comparing;
    cell.answers = name_of(answers);
    for (const ProbeSpec& probe : plan.manifest.probes) {
      cell.metric = probe.info().metric;
      cell.method = probe.label();
      cell.method_canonical = std::string(kProbePrefix) + probe.canonical();
      if (probe.info().compares) {  // with fewer dialogues each has another value
        cell.method_canonical +=
            fmt::format(" over {} dialogues {}", dialogues.size(), hash_text(ids).substr(0, 12));
      }
      if (!add_cell(plan, cell, planned)) continue;
      (probe.info().compares ? comparing : single).push_back({cell.key, &probe});
    }
    for (const auto& dialogue : dialogues) {
      if (!single.empty()) plan.probings.push_back({model, dataset, {dialogue}, single, answers});
    }
    if (!comparing.empty())
      plan.probings.push_back({model, dataset, dialogues, comparing, answers});
  }
}

}  // namespace

std::string find_source(const DatasetEntry& entry, const Manifest& manifest,
                        const Locations& locations) {
  const Dataset& dataset = find_dataset(entry.name, manifest.path.string() + ": /datasets");
  if (!dataset.takes_source) return entry.source;
  for (const std::string& name : {entry.label, entry.name, dataset.collection}) {
    const auto given = locations.data.find(name);
    if (given != locations.data.end()) return given->second;
  }
  if (!entry.source.empty()) {
    const fs::path path = entry.source;
    return path.is_absolute() ? path.string() : (manifest.path.parent_path() / path).string();
  }
  // What is made up without files takes them only if the manifest or the command line says so.
  if (!dataset.needs_source) return "";
  return under_environment("TURNBENCH_DATA", dataset.collection);
}

std::shared_ptr<const Segmenter> open_segmenter(const Metric& metric, const Locations& locations) {
  if (!metric.needs_segmenter) return nullptr;
  const auto given = locations.data.find("jieba");
  const std::string folder =
      given != locations.data.end() ? given->second : under_environment("TURNBENCH_DATA", "jieba");
  if (folder.empty()) {
    throw input_error(
        "metric {}: found no dictionary of Chinese words, expected the folder of jieba 0.42.1 with "
        "dict.txt and finalseg/: --data jieba=DIR, or jieba below $TURNBENCH_DATA",
        metric.name);
  }
  return std::make_shared<const Segmenter>(Segmenter::from_jieba(folder));
}

Tokenizer open_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.name != "tiny" && checkpoint.directory.empty()) {
    throw input_error("{}: found random weights without a tokenizer, expected a model with one",
                      checkpoint.name);
  }
  Tokenizer tokenizer =
      checkpoint.name == "tiny"
          ? Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(),
                                 "tiny/tokenizer.json")
          : Tokenizer::open(checkpoint.directory);
  if (tokenizer.vocab_size() > checkpoint.config.vocab) {
    throw input_error("{}: found a tokenizer of {} tokens, expected at most the model's {}",
                      checkpoint.name, tokenizer.vocab_size(), checkpoint.config.vocab);
  }
  return tokenizer;
}

bool has_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.name == "tiny") return true;
  if (checkpoint.directory.empty()) return false;
  const auto exists = [&](const char* file) { return is_there(checkpoint.directory / file); };
  return exists("tokenizer.json") || exists("vocab.json") || exists("tokenizer.model");
}

PlannedModel open_model(const ModelEntry& entry, const Locations& locations) {
  Checkpoint checkpoint = Checkpoint::open(model_path(entry, locations));
  Tokenizer tokenizer = open_tokenizer(checkpoint);
  ChatTemplate chat_template = find_chat_template(
      entry.chat_template == "auto" ? detect_chat_template(tokenizer.chat_template())
                                    : entry.chat_template);
  const DType dtype = weight_dtype(entry.dtype, checkpoint);
  std::string hash = checkpoint.content_hash();
  return {entry, std::move(checkpoint), std::move(tokenizer), chat_template,
          dtype, std::move(hash)};
}

std::vector<const Plan::Unit*> Plan::units_of(std::size_t model) const {
  std::vector<const Unit*> out;
  for (const Unit& unit : units) {
    if (unit.model == model) out.push_back(&unit);
  }
  return out;
}

std::vector<const Plan::Probing*> Plan::probings_of(std::size_t model) const {
  std::vector<const Probing*> out;
  for (const Probing& probing : probings) {
    if (probing.model == model) out.push_back(&probing);
  }
  return out;
}

PromptRenderer Plan::renderer(const PlannedModel& model) const {
  return {model.tokenizer, model.chat_template, manifest.system_prompt,
          model.checkpoint.config.eos_tokens};
}

Decoding Plan::decoding(const PlannedModel& model) const {
  Decoding d;
  d.max_new_tokens = manifest.max_new_tokens;
  d.temperature = manifest.temperature;
  d.seed = manifest.seed;
  d.alone = manifest.alone;
  // What the model was trained for, less room for the answers of a dialogue.
  const std::int64_t positions = model.checkpoint.config.max_positions;
  const std::int64_t own = std::max<std::int64_t>(positions / 2, positions - 2048);
  d.max_prompt_tokens =
      manifest.max_prompt_tokens > 0 ? manifest.max_prompt_tokens : static_cast<int>(own);
  return d;
}

Plan make_plan(const Manifest& manifest, const Locations& locations, std::size_t limit) {
  Plan plan;
  plan.manifest = manifest;
  plan.published = read_published(manifest);
  for (const ModelEntry& entry : manifest.models) {
    plan.models.push_back(open_model(entry, locations));
    check_positions(manifest, plan.models.back());
  }
  for (const DatasetEntry& entry : manifest.datasets)
    plan.datasets.push_back(load_dataset(entry, manifest, locations, limit));
  for (const PlannedDataset& dataset : plan.datasets) {
    if (!plan.segmenter)
      plan.segmenter = open_segmenter(find_metric(dataset.metric, dataset.entry.label), locations);
  }
  std::set<std::string> planned;  // keys of cells
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    const PlannedModel& model = plan.models[m];
    for (std::size_t d = 0; d < plan.datasets.size(); ++d) {
      const PlannedDataset& dataset = plan.datasets[d];
      Cell cell;
      cell.model = model.entry.name;
      cell.dataset = dataset.entry.label;
      cell.task = dataset.task;
      cell.metric = dataset.metric;
      cell.postprocess = dataset.postprocess;
      cell.model_hash = model.hash;
      cell.dataset_hash = dataset.hash;
      cell.protocol_text = protocol_card(plan, model, dataset);
      cell.protocol = hash_text(cell.protocol_text);
      for (Position position : manifest.positions) {
        cell.position = name_of(position);
        std::vector<std::shared_ptr<const Dialogue>> dialogues;
        for (const Dialogue& dialogue : dataset.dialogues)
          dialogues.push_back(std::make_shared<Dialogue>(at_position(dialogue, position)));
        std::vector<UnitCell> unit_cells;
        for (const Method& method : plan.manifest.methods) {
          for (History history : manifest.histories) {
            for (Answers answers : manifest.answers) {
              cell.method = method.label();
              cell.method_canonical = method.canonical();
              cell.history = name_of(history);
              cell.answers = name_of(answers);
              if (add_cell(plan, cell, planned))
                unit_cells.push_back({cell.key, &method, history, answers});
            }
          }
        }
        for (const auto& dialogue : dialogues) {
          if (!unit_cells.empty()) plan.units.push_back({m, d, dialogue, unit_cells});
        }
        add_probes(plan, m, d, cell, dialogues, planned);
      }
    }
  }
  return plan;
}

Store::Plan stored_plan(const Plan& plan, const std::vector<Device>& devices) {
  Store::Plan out;
  out.experiment = plan.manifest.name;
  out.title = plan.manifest.title;
  out.manifest = plan.manifest.text;
  out.directory = (fs::current_path() / plan.manifest.path).parent_path().string();
  out.published = plan.published;
  out.cells = plan.cells;
  for (const PlannedModel& m : plan.models) {
    const ModelConfig& c = m.checkpoint.config;
    out.models.emplace_back(
        m.hash, fmt::format("{}: {}, {} layers, {} heads, {} KV heads, head_dim {}, {} parameters",
                            m.checkpoint.name, c.family, c.layers, c.heads, c.kv_heads, c.head_dim,
                            c.parameters()));
  }
  for (const PlannedDataset& d : plan.datasets) {
    out.datasets.emplace_back(d.hash, dataset_description(d.entry));
    for (const Dialogue& one : d.dialogues) {
      out.dialogues.push_back(
          {d.hash, one.id, static_cast<int>(one.turns.size()), to_json_line(one)});
    }
  }
  out.environment = environment_card(devices);
  return out;
}

}  // namespace turnbench
