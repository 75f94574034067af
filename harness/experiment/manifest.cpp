#include "harness/experiment/manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/experiment/json_lists.h"
#include "harness/experiment/parse_table.h"

namespace turnbench {
namespace {

template <typename Enum>
Enum parse_enum(const JsonView& json, const std::vector<Enum>& values) {
  const std::string name = json.as_string();
  std::vector<std::string_view> names;
  for (Enum v : values) {
    if (name_of(v) == name) return v;
    names.push_back(name_of(v));
  }
  json.fail("one of: " + join(names, ", "));
}

/// Rejects two entries that a table could not distinguish.
template <typename Entries, typename Label>
void require_distinct(const JsonView& json, const Entries& entries, const Label& label) {
  std::set<std::string> seen;
  for (const auto& entry : entries) {
    if (!seen.insert(label(entry)).second) {
      json.fail("each name once (found \"" + printable(label(entry)) + "\" twice)");
    }
  }
}

/// Methods or probes; their labels are appended to `labels`.  Only in smoke runs may some be equal
/// except for their labels.
template <typename T>
std::vector<T> parse_specs(const JsonView& json, const std::string& what, bool is_smoke,
                           const std::filesystem::path& folder, std::vector<std::string>& labels) {
  std::vector<T> out;
  std::map<std::string, std::string> seen;  // canonical -> label
  for (const JsonView& item : json.items()) {
    out.push_back(T::parse(item, folder));
    labels.push_back(out.back().label());
    const auto [first, is_new] = seen.emplace(out.back().canonical(), labels.back());
    if (!is_new && !is_smoke)
      item.fail(fmt::format("each {} once: it is \"{}\" again", what, printable(first->second)));
  }
  require_distinct(json, labels, [](const std::string& label) { return label; });
  return out;
}

ModelEntry parse_model(const JsonView& json) {
  ModelEntry out;
  if (json.is_string()) {
    out.name = json.as_string();
    return out;
  }
  json.require_known_keys({"name", "path", "dtype", "kv_dtype", "math", "template"});
  out.name = json.at("name").as_string();
  if (trim(out.name).empty()) json.at("name").fail("a name for tables");
  out.path = json.get("path", std::string());
  out.dtype = json.get("dtype", std::string("auto"));
  const std::vector<std::string> dtypes = {"auto", "f32", "f16", "bf16"};
  if (std::find(dtypes.begin(), dtypes.end(), out.dtype) == dtypes.end()) {
    json.at("dtype").fail("one of: " + join(dtypes, ", "));
  }
  if (json.has("kv_dtype")) {
    out.kv_dtype = parse_enum<DType>(json.at("kv_dtype"), {DType::kF32, DType::kF16, DType::kBF16});
  }
  if (json.has("math")) {
    out.math = parse_enum<Math>(json.at("math"), kAllMath);
  }
  if (needs_bf16_weights(out.math) && out.dtype != "auto" && out.dtype != "bf16")
    json.at("dtype").fail("auto or bf16: products of bf16 have weights of bf16");
  out.chat_template = json.get("template", std::string("auto"));
  out.template_place = json.source() + ": " + json.path() + "/template";
  return out;
}

DatasetEntry parse_dataset(const JsonView& json) {
  DatasetEntry out;
  if (json.is_string()) {
    out.name = out.label = json.as_string();
    return out;
  }
  json.require_known_keys({"name", "label", "task", "source", "metric", "postprocess", "limit",
                           "only", "seed", "turns", "length", "depth", "fields", "official_prompts",
                           "leave_out"});
  out.name = json.at("name").as_string();
  out.label = json.get("label", out.name);
  if (trim(out.label).empty()) json.at("label").fail("a name for tables");
  out.task = json.get("task", std::string());
  out.source = json.get("source", std::string());
  out.metric = json.get("metric", std::string());
  out.postprocess = json.get("postprocess", std::string());
  out.limit = static_cast<std::size_t>(json.get_integer("limit", 0, 0, 1'000'000));
  out.seed = static_cast<std::uint64_t>(json.get_integer("seed", 0, 0));
  out.turns = static_cast<int>(json.get_integer("turns", 0, 0, 100));
  out.length = static_cast<int>(json.get_integer("length", 0, 0, 10'000'000));
  if (json.has("depth")) {
    out.depth = json.at("depth").as_number();
    if (!(*out.depth >= 0 && *out.depth <= 100)) json.at("depth").fail("a number from 0 to 100");
  }
  if (json.has("fields")) {
    const JsonView fields = json.at("fields");
    for (const std::string& ours : fields.keys()) out.fields[ours] = fields.at(ours).as_string();
  }
  out.only = json.get("only", std::string());
  out.official_prompts = json.get("official_prompts", false);
  out.leave_out = json.get("leave_out", std::string());
  return out;
}

/// The name of an experiment appears in file names and commands.
std::string parse_name(const JsonView& json) {
  const std::string name = json.as_string();
  const char* known = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (name.empty() || name.find_first_not_of(known) != std::string::npos)
    json.fail("letters, digits, dots, dashes and underscores");
  return name;
}

/// The labels that methods and probes have in addition to their names and settings.
std::set<std::string> labels_given_in(const JsonView& json) {
  std::set<std::string> out;
  for (const char* key : {"methods", "probes"}) {
    if (!json.has(key) || !json.at(key).is_array()) continue;
    for (const JsonView& item : json.at(key).items()) {
      if (item.is_object() && item.has("label") && item.at("label").is_string())
        out.insert(item.at("label").as_string());
    }
  }
  return out;
}

/// Parses methods and probes, at least one in total.
void parse_measured(const JsonView& json, const std::filesystem::path& folder, Manifest& m) {
  const bool is_smoke = !m.smoke.empty();
  std::vector<std::string> labels;
  if (json.has("methods") || !json.has("probes")) {
    m.methods = parse_specs<Method>(json.at("methods"), "method", is_smoke, folder, labels);
    if (m.methods.empty() && !json.has("probes")) json.at("methods").fail("at least one method");
  }
  if (json.has("probes")) {
    m.probes = parse_specs<ProbeSpec>(json.at("probes"), "probe", is_smoke, folder, labels);
    if (m.probes.empty()) json.at("probes").fail("at least one probe");
  }
}

/// The distinct values of a key; `fallback` if it is missing.
template <typename Enum>
std::vector<Enum> parse_enums(const JsonView& json, const char* key, Enum fallback,
                              const std::vector<Enum>& values) {
  if (!json.has(key)) return {fallback};
  return one_or_more<Enum>(json.at(key),
                           [&](const JsonView& item) { return parse_enum<Enum>(item, values); });
}

/// Parses the generation of answers, and the lengths of prompts and answers.
void parse_decoding(const JsonView& json, Manifest& m, ManifestUse use) {
  m.past_positions = json.get("past_positions", false);
  m.max_prompt_tokens = static_cast<int>(json.get_integer("max_prompt_tokens", 0, 0, 100'000'000));
  m.max_new_tokens = static_cast<int>(json.get_integer("max_new_tokens", 0, 1, 1'000'000));
  if (json.has("alone") && json.has("isolated"))
    json.at("alone").fail("isolated without its older name");
  const char* isolated = json.has("alone") ? "alone" : "isolated";
  m.isolated = json.get(isolated, false);
  if (m.isolated && m.max_new_tokens < 2)
    json.at(isolated).fail("max_new_tokens of at least 2 with it");
  m.link_gbps = json.get("link_gbps", 0.0);
  if (json.has("link_gbps")) {
    if (!m.isolated) json.at("link_gbps").fail("\"isolated\": true with it");
    if (!(m.link_gbps >= 0.001 && m.link_gbps <= 1e6))
      json.at("link_gbps").fail("a number of 1e9 bytes/s from 0.001 to 1e6");
  }
  if (json.has("fidelity")) {
    if (m.isolated) json.at("fidelity").fail("none with " + std::string(isolated));
    if (m.methods.empty() && use == ManifestUse::kRun)
      json.at("fidelity").fail("at least one method: probes have no fidelity");
    m.fidelity = parse_enum<Along>(json.at("fidelity"), {Along::kFull, Along::kGold});
  }
  m.temperature = json.get("temperature", 0.0);
  if (m.temperature < 0 || m.temperature > 100)
    json.at("temperature").fail("a number from 0 to 100");
  m.seed = static_cast<std::uint64_t>(json.get_integer("seed", 0, 0));
  m.system_prompt = json.get("system_prompt", std::string());
}

/// Rejects methods that prescribe another history than the manifest's.
void check_histories(const JsonView& json, const Manifest& m) {
  for (const Method& method : m.methods) {
    const Policies& policies = method.policies();
    const bool dense =
        std::find(m.histories.begin(), m.histories.end(), History::kDense) != m.histories.end();
    if (dense && policies.traits().needs_every_pass) {
      throw input_error(
          "{}: /history: found dense with the method {}, expected another history: the method must "
          "see every token of a dialogue as it is computed",
          json.source(), printable(method.label()));
    }
    const auto keeps = policies.traits().keeps_cache;
    if (!keeps) continue;
    for (const History history : m.histories) {
      if (*keeps == keeps_cache(history)) continue;
      throw input_error(
          "{}: /history: found {} with the method {}, expected {}, as its own mode of later turns "
          "requires",
          json.source(), name_of(history), printable(method.label()),
          *keeps ? "compress_once or recompress" : "reprefill or dense");
    }
  }
}

/// With a dense history the earlier turns are not answered, and no full attention runs for
/// comparison.
void check_dense_history(const JsonView& json, const Manifest& m) {
  if (std::find(m.histories.begin(), m.histories.end(), History::kDense) == m.histories.end())
    return;
  const auto refuse = [&](const char* key, std::string_view found, const char* expected) {
    throw input_error("{}: /{}: found {} with the history dense, expected {}", json.source(), key,
                      found, expected);
  };
  for (const Answers answers : m.answers) {
    if (answers != Answers::kGold)
      refuse("answers", name_of(answers), "gold: its earlier turns are not asked");
  }
  if (m.fidelity) refuse("fidelity", name_of(*m.fidelity), "none");
}

}  // namespace

const DatasetEntry& Manifest::dataset(const std::string& label) const {
  std::vector<std::string_view> labels;
  for (const DatasetEntry& entry : datasets) {
    if (entry.label == label || (label.empty() && datasets.size() == 1)) return entry;
    labels.push_back(entry.label);
  }
  throw input_error("--dataset: found \"{}\", expected {}", printable(label),
                    nearest_or_all(label, labels));
}

Manifest parse_manifest(std::string_view text, const std::string& source, ManifestUse use,
                        const std::filesystem::path& folder) {
  const Json document = parse_json(text, source);
  const JsonView json(document, source);
  json.require_known_keys({"name",
                           "title",
                           "description",
                           "models",
                           "datasets",
                           "positions",
                           "methods",
                           "probes",
                           "history",
                           "answers",
                           "max_prompt_tokens",
                           "past_positions",
                           "max_new_tokens",
                           "isolated",
                           "link_gbps",
                           "alone",
                           "fidelity",
                           "temperature",
                           "seed",
                           "system_prompt",
                           "tables",
                           "published",
                           "smoke"});
  Manifest m;
  m.text = text;
  m.name = parse_name(json.at("name"));
  m.title = json.get("title", m.name);
  m.smoke = json.get("smoke", std::string());
  m.description = json.get("description", std::string());
  m.models = one_or_more<ModelEntry>(json.at("models"), parse_model);
  require_distinct(json.at("models"), m.models, [](const ModelEntry& e) { return e.name; });
  m.datasets = one_or_more<DatasetEntry>(json.at("datasets"), parse_dataset);
  require_distinct(json.at("datasets"), m.datasets, [](const DatasetEntry& e) { return e.label; });
  m.positions = {Position::kEnd};
  if (json.has("positions")) {
    m.own_positions = false;
    m.positions = one_or_more<Position>(json.at("positions"), [](const JsonView& p) {
      return parse_position(p.as_string(), p.source() + ": " + p.path());
    });
  }
  m.given_labels = labels_given_in(json);
  if (use == ManifestUse::kRun) parse_measured(json, folder, m);
  m.histories = parse_enums(
      json, "history", History::kReprefill,
      {History::kReprefill, History::kCompressOnce, History::kRecompress, History::kDense});
  check_histories(json, m);
  m.answers = parse_enums(json, "answers", Answers::kOwn, {Answers::kOwn, Answers::kGold});
  parse_decoding(json, m, use);
  check_dense_history(json, m);
  if (json.has("tables")) {
    for (const JsonView& table : json.at("tables").items())
      m.tables.push_back(parse_table(table, m, use));
  }
  m.published = json.get("published", std::string());
  if (m.smoke.empty() && m.name.ends_with(kSmokeSuffix))
    json.at("name").fail(fmt::format("a name without {}, which smoke runs have", kSmokeSuffix));
  return m;
}

Manifest load_manifest(const std::filesystem::path& path) {
  Manifest m =
      parse_manifest(read_file(path), path.string(), ManifestUse::kRun, path.parent_path());
  m.path = path;
  return m;
}

}  // namespace turnbench
