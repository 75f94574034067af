#include "harness/experiment/smoke.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/text.h"
#include "datasets/catalog.h"
#include "harness/experiment/published.h"
#include "harness/experiment/smoke_tables.h"

namespace turnbench {
namespace {

constexpr const char* kWarning =
    "Smoke run on stand-ins: these numbers are not results of the experiment.";
constexpr int kLength = 220;     // of a dialogue, in words
constexpr int kMaxPrompt = 300;  // tokens: the same with markup
// Prompt limit for records that are read from files: their instructions, examples and questions,
// which are never truncated, have some hundred tokens in tiny's small vocabulary.
constexpr int kMaxRecordPrompt = 2048;
constexpr int kMaxAnswer = 18;  // tokens: LoopServe selects after the 16th
constexpr int kMaxTurns = 2;
constexpr int kHistoryTurns = 3;  // if only the last turn is answered
constexpr double kKept = 64;      // token counts up to this value stay unchanged
// Prompt length in tokens to which shares in the experiment refer.
constexpr int kRealPrompt = 8192;
// Maximum of layers or layer counts in parameters: tiny has four layers.
constexpr int kLastLayer = 2;
constexpr int kMostDimensions = 16;  // of the 32 that a head of tiny has
constexpr int kMostNewest = 128;     // tokens that a codec does not encode

/// Scales a token count above 64 to the smoke run's prompts: 1,024 becomes 128, 4,096 becomes 160.
/// It stays below the prompt's length, so that methods that evict still do so.
int scaled(int tokens) {
  const double shorter = kKept + std::floor(16 * std::log2(tokens / kKept));
  return std::max(static_cast<int>(kKept) + 1, static_cast<int>(shorter));
}

/// The token count of a parameter that becomes smaller: of a budget, or a number of tokens or
/// lines.  Shares of a prompt are converted to numbers of tokens, because windows and sinks do not
/// shrink with the prompt and would exceed, say, a tenth of 300 tokens.
std::optional<int> scaled_count(const ParameterInfo& p, const Parameters& values) {
  if (!has_effect(p, values.values())) return std::nullopt;
  if (p.kind == ParameterInfo::Kind::kBudget) {
    const Budget budget = values.budget(p.name);
    const bool of_prompt = !p.unit.ends_with("of the budget");
    if (budget.is_ratio && (!of_prompt || budget.value == 1)) return std::nullopt;
    return std::max(1, budget.tokens(kRealPrompt));
  }
  const bool amount = p.kind == ParameterInfo::Kind::kInteger &&
                      (p.unit.starts_with("tokens") || p.unit == "lines");
  return amount ? std::optional(values.integer(p.name)) : std::nullopt;
}

/// A method's token counts and their versions for short prompts, which keep the order of the
/// counts: a budget that exceeds a window by one token still exceeds it.
using ShortCounts = std::map<int, int>;

ShortCounts short_counts(const Method& method) {
  ShortCounts out;
  for (const Method::Part& part : method.parts()) {
    for (const ParameterInfo& p : part.info->parameters) {
      if (const auto count = scaled_count(p, part.parameters)) out[*count] = *count;
    }
    if (part.compress_block > 0) out[part.compress_block] = part.compress_block;
  }
  int before = 0;
  for (auto& [count, shorter] : out) {
    if (count > kKept) shorter = std::max(scaled(count), before + 1);
    before = shorter;
  }
  return out;
}

/// The layers that tiny has, or its last one.
std::string short_list(std::vector<int> layers) {
  if (layers.empty()) return "auto";
  const int first = std::min(layers.front(), kLastLayer);
  std::erase_if(layers, [&](int layer) { return layer > kLastLayer; });
  if (layers.empty()) layers.push_back(first);
  return fmt::format("{}", fmt::join(layers, "/"));
}

/// The value of a parameter for short prompts; drafts are those of the embedded model.  `more`
/// separates values that would be equal.
std::string short_value(const ParameterInfo& p, const Parameters& values, const ShortCounts& counts,
                        int more) {
  const std::string& value = values.values().find(p.name)->second;
  if (!has_effect(p, values.values())) return value;
  if (p.kind == ParameterInfo::Kind::kDraft && values.draft(p.name)) return "tiny";
  if (p.unit == "file of a model") return std::string(p.fallback);  // of another one
  if (p.kind == ParameterInfo::Kind::kLayerList) return short_list(values.layer_list(p.name));
  if (p.kind == ParameterInfo::Kind::kInteger && p.unit.starts_with("layer"))
    return fmt::format("{}", std::min(values.integer(p.name), kLastLayer));
  if (p.kind == ParameterInfo::Kind::kInteger && p.unit == "dimensions")
    return fmt::format("{}", std::min(values.integer(p.name), kMostDimensions));
  if (p.kind == ParameterInfo::Kind::kInteger && p.unit == "newest tokens")
    return fmt::format("{}", std::min(values.integer(p.name), kMostNewest));
  const auto count = scaled_count(p, values);
  if (!count) return value;
  if (*count <= kKept) return fmt::format("{}", *count);
  return fmt::format("{}", std::max(counts.at(*count), static_cast<int>(p.min)) + more);
}

OrderedJson short_method(const Method& method, int more) {
  OrderedJson parts = OrderedJson::array();
  const ShortCounts counts = short_counts(method);
  for (const Method::Part& part : method.parts()) {
    OrderedJson out = {{"name", part.info->name}};
    for (const ParameterInfo& p : part.info->parameters)
      out[std::string(p.name)] = short_value(p, part.parameters, counts, more);
    for (const auto& [name, value] : part.placement.values()) out[name] = value;
    if (part.evicts_before_question)
      out[std::string(compress_parameter().name)] = "before_question";
    if (part.compress_block > 0)
      out[std::string(compress_block_parameter().name)] = counts.at(part.compress_block);
    parts.push_back(std::move(out));
  }
  return {{"label", method.label()}, {"method", std::move(parts)}};
}

/// The first of make(0), make(1), ... whose name is not in `seen`, which receives it; make(0) if
/// the numbers change nothing.  `name` gives the canonical name of what was made.
template <typename Make, typename Name>
auto distinct(std::set<std::string>& seen, const Make& make, const Name& name) {
  auto first = make(0);
  const std::string usual = name(first);
  if (seen.insert(usual).second) return first;
  for (int more = 1;; ++more) {
    auto out = make(more);
    const std::string other = name(out);
    if (other == usual) return first;
    if (seen.insert(other).second) return out;
  }
}

/// Methods that differ in the experiment also differ here, if they have settings in tokens.  For
/// example, a quarter and 2,048 tokens would both become 144, so the second becomes 145.  `source`
/// names the run in messages.
OrderedJson short_methods(const std::vector<const Method*>& methods, const std::string& source,
                          const std::filesystem::path& folder) {
  OrderedJson out = OrderedJson::array();
  std::set<std::string> seen;
  for (const Method* method : methods) {
    out.push_back(distinct(
        seen, [&](int more) { return short_method(*method, more); },
        [&](const OrderedJson& one) {
          const Json json = parse_json(one.dump(), source);
          return Method::parse(JsonView(json, source), folder).canonical();
        }));
  }
  return out;
}

/// The method of a probe for short prompts, as text: the settings that differ from the defaults.
std::string short_text(const Method& method, int more) {
  std::string out;
  const ShortCounts counts = short_counts(method);
  for (const Method::Part& part : method.parts()) {
    std::vector<std::string> given;
    for (const ParameterInfo& p : part.info->parameters) {
      const std::string value = short_value(p, part.parameters, counts, more);
      if (value != p.fallback) given.push_back(fmt::format("{}={}", p.name, value));
    }
    for (const auto& [name, value] : part.placement.values()) given.push_back(name + "=" + value);
    out += fmt::format("{}{}{}{}", out.empty() ? "" : "+", part.info->name,
                       given.empty() ? "" : ":", join(given, ","));
  }
  return out;
}

/// Probes with a method use its version from `short_methods`, but keep their own names.
OrderedJson short_probes(const OrderedJson& written, const std::vector<ProbeSpec>& probes,
                         const std::filesystem::path& folder) {
  OrderedJson out = OrderedJson::array();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const ProbeSpec& probe = probes[i];
    if (!probe.method()) {
      out.push_back(written[i]);
      continue;
    }
    std::string others;
    for (const ParameterInfo& p : probe.info().parameters) {
      if (p.kind != ParameterInfo::Kind::kMethod)
        others += fmt::format("{}={},", p.name, *probe.setting(p.name));
    }
    const std::string text = distinct(
        seen,
        [&](int more) {
          return fmt::format("{}:{}method={}", probe.info().name, others,
                             short_text(*probe.method(), more));
        },
        [&](const std::string& spec) {
          return ProbeSpec::parse(spec, "smoke run", folder).canonical();
        });
    out.push_back({{"label", probe.label()}, {"probe", text}});
  }
  return out;
}

/// A generated dataset with answers of the same form: a label, a long text, or a short fact.  The
/// metric stays the same if it can score them.
struct StandIn {
  std::string name, metric;
};

StandIn stand_in(const std::string& metric, std::size_t index) {
  if (metric == "accuracy" || metric == "classification") return {"tiny-label", metric};
  const bool english = !metric.ends_with("_zh");
  if (english && (metric.starts_with("rouge") || metric.starts_with("code_sim")))
    return {"tiny-list", metric};
  const std::string fact = index % 2 == 0 ? "tiny-fact" : "tiny-hop";
  return {fact, metric == "exact_match" ? metric : "qa_f1"};
}

OrderedJson short_dataset(const DatasetEntry& entry, const OrderedJson& written, std::size_t index,
                          bool has_files, bool asks_last) {
  const Dataset& dataset = find_dataset(entry.name, "smoke run");
  OrderedJson out = written.is_object() ? written : OrderedJson{{"name", entry.name}};
  const bool replaced = dataset.needs_source && !has_files;
  if (replaced) {
    const StandIn other = stand_in(entry.metric.empty() ? dataset.metric : entry.metric, index);
    out = {{"name", other.name}, {"metric", other.metric}};  // equal stand-ins: computed once
  }
  out["label"] = entry.label;
  out["task"] = entry.task.empty() ? dataset.task : entry.task;
  out["limit"] = 1;
  if (replaced || dataset.turns > 0)
    out["turns"] = std::clamp(entry.turns > 0 ? entry.turns : dataset.turns, 1, kMaxTurns);
  if (replaced && asks_last) out["turns"] = kHistoryTurns;
  const Dataset& made = find_dataset(out["name"].get<std::string>(), "smoke run");
  if (made.has_length) {
    const int wanted = entry.length > 0 ? std::min(entry.length, kLength) : kLength;
    out["length"] = std::max(wanted, made.min_turn_length * out["turns"].get<int>());
  }
  return out;
}

/// The label with every number replaced by the same mark: equal for the values of one sweep.
std::string sweep_of(const std::string& label) {
  std::string out;
  for (char c : label) {
    const bool number = (c >= '0' && c <= '9') || c == '.';
    if (!number) out += c;
    if (number && !out.ends_with('#')) out += '#';
  }
  return out;
}

/// The manifest's published numbers; empty if their file does not exist.
std::vector<PublishedNumber> published_numbers(const Manifest& manifest) {
  const std::filesystem::path file = manifest.path.parent_path() / manifest.published;
  if (manifest.published.empty() || !std::filesystem::exists(file)) return {};
  return parse_published(read_published(manifest), file.string());
}

/// The labels of a dimension in published numbers.
std::vector<std::string> labels_of(const std::vector<PublishedNumber>& numbers,
                                   const std::string& dimension) {
  std::set<std::string> out;
  for (const PublishedNumber& number : numbers) {
    const auto named = number.dimensions.find(dimension);
    if (named != number.dimensions.end()) out.insert(named->second.begin(), named->second.end());
  }
  return {out.begin(), out.end()};
}

/// The labels of the datasets with a published number of their own or of their task.
std::vector<std::string> datasets_of(const std::vector<PublishedNumber>& numbers,
                                     const Manifest& manifest) {
  std::vector<std::string> out = labels_of(numbers, "dataset");
  const std::vector<std::string> tasks = labels_of(numbers, "task");
  for (const DatasetEntry& entry : manifest.datasets) {
    if (std::find(tasks.begin(), tasks.end(), entry.task) != tasks.end())
      out.push_back(entry.label);
  }
  return out;
}

/// The entries to keep: the first and the last value of every sweep, and those in `needed`.
template <typename Entries, typename Label>
std::vector<const typename Entries::value_type*> sweep_ends(
    const Entries& entries, const Label& label, const std::vector<std::string>& needed) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> ends;
  for (std::size_t i = 0; i < entries.size(); ++i)
    ends.try_emplace(sweep_of(label(entries[i])), i, i).first->second.second = i;
  std::vector<const typename Entries::value_type*> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string name = label(entries[i]);
    const auto [first, last] = ends.at(sweep_of(name));
    const bool is_needed = std::find(needed.begin(), needed.end(), name) != needed.end();
    if (i == first || i == last || is_needed) out.push_back(&entries[i]);
  }
  return out;
}

}  // namespace

Manifest smoke_manifest(const Manifest& manifest, const Locations& locations) {
  OrderedJson json = OrderedJson::parse(manifest.text);
  json["name"] = manifest.name + std::string(kSmokeSuffix);
  json["title"] = "Smoke run of: " + manifest.title;
  json["smoke"] = kWarning;

  json["models"] = OrderedJson::array();
  for (const ModelEntry& entry : manifest.models)
    json["models"].push_back({{"name", entry.name}, {"path", "tiny"}});

  const std::vector<PublishedNumber> numbers = published_numbers(manifest);
  std::vector<std::string> changes, needed = labels_of(numbers, "method");
  int max_prompt = kMaxPrompt;
  const OrderedJson written =
      json["datasets"].is_array() ? json["datasets"] : OrderedJson::array({json["datasets"]});
  json["datasets"] = OrderedJson::array();
  const bool asks_last = std::find(manifest.histories.begin(), manifest.histories.end(),
                                   History::kDense) != manifest.histories.end();
  for (const DatasetEntry* entry : sweep_ends(
           manifest.datasets, [](const DatasetEntry& d) { return d.label; },
           datasets_of(numbers, manifest))) {
    const auto index = static_cast<std::size_t>(entry - manifest.datasets.data());
    const bool has_files = !locations.dataset_path(*entry, manifest).empty();
    if (has_files) max_prompt = kMaxRecordPrompt;
    json["datasets"].push_back(short_dataset(*entry, written[index], index, has_files, asks_last));
    const std::string name = json["datasets"].back()["name"].get<std::string>();
    if (name != entry->name) changes.push_back(entry->label + " by " + name);
  }

  const std::vector<std::string> named = methods_of_tables(manifest);
  needed.insert(needed.end(), named.begin(), named.end());
  const std::filesystem::path folder = manifest.path.parent_path();
  const auto label = [](const Method& m) { return m.label(); };
  const std::vector<const Method*> methods = sweep_ends(manifest.methods, label, needed);
  const std::string source = manifest.path.string() + ": smoke run";
  json["methods"] = short_methods(methods, source, folder);
  std::set<std::string> kept;
  for (const Method* method : methods) kept.insert(method->label());
  for (std::size_t i = 0; i < manifest.tables.size(); ++i)
    json["tables"][i] = smoke_table(json["tables"][i], manifest.tables[i], manifest, kept);

  if (!manifest.probes.empty())
    json["probes"] = short_probes(json["probes"], manifest.probes, folder);

  json.erase("system_prompt");  // tiny's template does not support it
  json["max_prompt_tokens"] = max_prompt;
  json["max_new_tokens"] = kMaxAnswer;
  json["description"] = fmt::format(
      "{} Every model is the embedded tiny; prompts have at most {} tokens, answers {}; budgets "
      "are reduced accordingly; of each sweep, only the ends and the values with a published "
      "number run.{}",
      kWarning, max_prompt, kMaxAnswer,
      changes.empty() ? "" : " Datasets are replaced: " + join(changes, ", ") + ".");
  const std::string text = json.dump(1);
  Manifest out = parse_manifest(text, source, ManifestUse::kRun, folder);
  out.path = manifest.path;
  return out;
}

}  // namespace turnbench
