#include "harness/experiment/parse_table.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "harness/experiment/json_lists.h"
#include "harness/run/fidelity.h"
#include "harness/store/method_filter.h"
#include "metrics/metric.h"

namespace turnbench {
namespace {

/// Whether any method or probe of the manifest has a setting.
bool has_setting(const Manifest& manifest, std::string_view name) {
  const auto has = [name](const auto& entry) { return entry.setting(name).has_value(); };
  return std::any_of(manifest.methods.begin(), manifest.methods.end(), has) ||
         std::any_of(manifest.probes.begin(), manifest.probes.end(), has);
}

/// The manifest's methods and probes, as their cells will name them.
std::vector<Cell> methods_of(const Manifest& manifest) {
  std::vector<Cell> out;
  const auto add = [&](const std::string& label, const std::string& canonical) {
    out.emplace_back();
    out.back().method = label;
    out.back().method_canonical = canonical;
  };
  for (const Method& m : manifest.methods) add(m.label(), m.canonical());
  for (const ProbeSpec& p : manifest.probes)
    add(p.label(), std::string(kProbePrefix) + p.canonical());
  return out;
}

std::string labels_in(const std::vector<Cell>& methods) {
  std::vector<std::string> out;
  for (const Cell& method : methods) out.push_back(printable(method.method));
  return join(out, ", ");
}

/// `has_values`: the table has a list of values.
std::vector<std::string> parse_dimensions(const JsonView& json, const Manifest& manifest,
                                          ManifestUse use, bool has_values) {
  return one_or_more<std::string>(json, [&](const JsonView& item) {
    const std::string name = item.as_string();
    if (name == kValueDimension) {
      if (!has_values) item.fail("\"values\" in the table with it");
      return name;
    }
    if (name == kVariantDimension) return name;
    if (name.starts_with(kSettingPrefix)) {
      if (use == ManifestUse::kRun && !has_setting(manifest, name.substr(kSettingPrefix.size())))
        item.fail("method.name, method.variant, or a parameter of one of the methods");
      return name;
    }
    const auto& known = table_dimensions();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      item.fail("one of: " + join(known, ", ") +
                ", value, method.name, method.variant, method.PARAMETER");
    }
    return name;
  });
}

void check_value(const JsonView& json, const Manifest& manifest) {
  const std::string name = json.as_string();
  if (find_table_value(name) != nullptr) {
    if (!shows_scores(name) && !find_table_value(name)->is_counter && !manifest.isolated)
      json.fail("score, or \"isolated\": true in the manifest");
    if (is_fidelity_metric(name) && !manifest.fidelity)
      json.fail("score, or \"fidelity\" in the manifest");
    return;
  }
  if (name.starts_with(kJudgePrefix) && name.size() > kJudgePrefix.size()) return;
  std::vector<std::string_view> values, metrics;
  for (const TableValue& value : table_values()) values.push_back(value.name);
  for (const Metric& metric : all_metrics()) {
    if (metric.name == name) return;
    metrics.push_back(metric.name);
  }
  const std::string near = nearest_name(name, metrics);
  json.fail(near.empty() ? "one of: " + join(values, ", ") + ", a metric, judge:RUBRIC"
                         : "\"" + near + "\"");
}

/// The quantities of a table: those of "values", or the one of "value".
std::vector<std::string> parse_values(const JsonView& table, const Manifest& manifest,
                                      ManifestUse use) {
  const auto checked = [&](const JsonView& item) {
    if (use == ManifestUse::kRun) check_value(item, manifest);
    return item.as_string();
  };
  if (!table.has("values")) {
    if (!table.has("value")) return TableSpec().values;
    return {checked(table.at("value"))};
  }
  if (table.has("value")) table.at("value").fail("none beside \"values\"");
  return one_or_more<std::string>(table.at("values"), checked);
}

/// A method as a manifest writes it, as text: its label, or its name and settings.
std::string method_text(const JsonView& json) {
  if (json.is_string()) return json.as_string();
  if (json.is_array()) {
    std::vector<std::string> parts;
    for (const JsonView& part : json.items()) parts.push_back(method_text(part));
    return join(parts, "+");
  }
  if (json.is_object() && json.has("label")) return json.at("label").as_string();
  return Spec::parse(json, "method").text();
}

std::vector<std::string> parse_methods(const JsonView& json, const std::vector<Cell>& methods,
                                       ManifestUse use) {
  return one_or_more<std::string>(json, [&](const JsonView& item) {
    const std::string text = method_text(item);
    // Predictions can be imported after the manifest has been read.
    if (use == ManifestUse::kReport || text.starts_with(kImportedPrefix)) return text;
    const MethodFilter filter(text);
    if (std::none_of(methods.begin(), methods.end(),
                     [&](const Cell& method) { return filter.matches(method); })) {
      item.fail("one of the manifest's methods, or the name of one of them without settings: " +
                labels_in(methods));
    }
    return text;
  });
}

/// Refuses a rule that has several baselines for a method, or none for all of them.
void check_rule(const JsonView& json, const BaselineRule& rule, const std::vector<Cell>& methods,
                const Manifest& manifest) {
  const JsonView method = json.is_object() ? json.at("method") : json;
  const bool known = std::any_of(methods.begin(), methods.end(),
                                 [&](const Cell& m) { return is_baseline(rule, m); });
  if (!known) {
    method.fail(rule.by_settings
                    ? "the name of one of the manifest's methods, alone or with some settings: " +
                          labels_in(methods)
                    : "one of the manifest's methods, by its label: " + labels_in(methods));
  }
  if (!rule.by_settings) return;
  bool any = false;
  for (const Cell& compared : methods) {
    if (is_baseline(rule, compared)) continue;
    std::vector<Cell> candidates;
    for (const Cell* c : baseline_candidates(rule, compared, methods)) candidates.push_back(*c);
    any |= !candidates.empty();
    // In a smoke run, different settings may become equal.
    if (candidates.size() < 2 || !manifest.smoke.empty()) continue;
    method.fail(
        fmt::format("one baseline of {}; it may be {}: add settings, or parameters to \"same\"",
                    printable(compared.method), labels_in(candidates)));
  }
  if (!any && manifest.smoke.empty())
    json.fail("a baseline of at least one of the other methods: " + labels_in(methods));
}

BaselineRule parse_rule(const JsonView& json, const std::vector<Cell>& methods,
                        const Manifest& manifest, ManifestUse use) {
  BaselineRule out;
  if (json.is_object()) {
    json.require_known_keys({"method", "same"});
    out.method = json.at("method").as_string();
    out.by_settings = true;
    if (json.has("same")) {
      out.same = one_or_more<std::string>(json.at("same"), [&](const JsonView& item) {
        const std::string name = item.as_string();
        if (use == ManifestUse::kRun && (name == "name" || !has_setting(manifest, name)))
          item.fail("a parameter of one of the manifest's methods, such as budget");
        return name;
      });
    }
  } else {
    out.method = json.as_string();
  }
  if (use == ManifestUse::kRun) check_rule(json, out, methods, manifest);
  return out;
}

}  // namespace

const std::vector<std::string_view>& table_dimensions() {
  static const std::vector<std::string_view> dimensions = {
      "model",   "dataset", "task", "position",       "method",       "history",
      "answers", "metric",  "turn", kLengthDimension, kDepthDimension};
  return dimensions;
}

TableSpec parse_table(const JsonView& json, const Manifest& manifest, ManifestUse use) {
  json.require_known_keys(
      {"title", "value", "values", "rows", "columns", "methods", "difference_to"});
  const std::vector<Cell> methods = methods_of(manifest);
  TableSpec out;
  out.title = json.get("title", std::string());
  out.values = parse_values(json, manifest, use);
  const bool has_values = json.has("values");
  out.rows = json.has("rows") ? parse_dimensions(json.at("rows"), manifest, use, has_values)
                              : std::vector<std::string>{"method"};
  out.columns = json.has("columns")
                    ? parse_dimensions(json.at("columns"), manifest, use, has_values)
                    : std::vector<std::string>{"dataset", "position"};
  for (const std::string& row : out.rows) {
    if (std::find(out.columns.begin(), out.columns.end(), row) != out.columns.end()) {
      json.fail("each dimension in rows or in columns, not in both");
    }
  }
  const std::string value(kValueDimension);
  const bool is_placed =
      std::find(out.rows.begin(), out.rows.end(), value) != out.rows.end() ||
      std::find(out.columns.begin(), out.columns.end(), value) != out.columns.end();
  if (has_values && !is_placed) out.columns.push_back(value);
  if (json.has("methods")) out.methods = parse_methods(json.at("methods"), methods, use);
  // An empty text was always the same as none.
  const bool none = json.has("difference_to") && json.at("difference_to").is_string() &&
                    json.at("difference_to").as_string().empty();
  if (json.has("difference_to") && !none) {
    out.difference_to = one_or_more<BaselineRule>(
        json.at("difference_to"),
        [&](const JsonView& item) { return parse_rule(item, methods, manifest, use); });
  }
  return out;
}

}  // namespace turnbench
