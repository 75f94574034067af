#include "harness/experiment/smoke_tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "harness/store/method_filter.h"

namespace turnbench {
namespace {

/// The manifest's methods, as their cells name them.
std::vector<Cell> cells_of_methods(const Manifest& manifest) {
  std::vector<Cell> out;
  for (const Method& method : manifest.methods) {
    out.emplace_back();
    out.back().method = method.label();
    out.back().method_canonical = method.canonical();
  }
  return out;
}

/// The name in a text of a method: "snapkv:window=8" without its settings.
std::string without_settings(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& part : split(text, "+")) names.push_back(part.substr(0, part.find(':')));
  return join(names, "+");
}

}  // namespace

std::vector<std::string> methods_of_tables(const Manifest& manifest) {
  const std::vector<Cell> methods = cells_of_methods(manifest);
  std::vector<std::string> out;
  for (const TableSpec& table : manifest.tables) {
    for (const std::string& entry : table.methods) {
      const MethodFilter filter(entry);
      const auto first = std::find_if(methods.begin(), methods.end(),
                                      [&](const Cell& cell) { return filter.matches(cell); });
      if (first != methods.end()) out.push_back(first->method);
    }
    for (const BaselineRule& rule : table.difference_to) {
      if (!rule.by_settings) out.push_back(rule.method);
      for (const Cell& compared : methods) {
        if (!rule.by_settings || is_baseline(rule, compared)) continue;
        for (const Cell* baseline : baseline_candidates(rule, compared, methods))
          out.push_back(baseline->method);
      }
    }
  }
  return out;
}

OrderedJson smoke_table(OrderedJson table, const TableSpec& spec, const Manifest& manifest,
                        const std::set<std::string>& kept) {
  const std::vector<Cell> methods = cells_of_methods(manifest);
  if (!spec.methods.empty()) table["methods"] = OrderedJson::array();
  for (const std::string& entry : spec.methods) {
    const MethodFilter filter(entry);
    std::vector<std::string> labels;
    for (const Cell& method : methods) {
      if (filter.matches(method) && kept.contains(method.method)) labels.push_back(method.method);
    }
    if (labels.empty()) labels.push_back(entry);  // a probe, or imported predictions
    for (const std::string& label : labels) {
      const auto& all = table["methods"];
      if (std::find(all.begin(), all.end(), label) == all.end()) table["methods"].push_back(label);
    }
  }
  if (spec.difference_to.empty()) return table;
  OrderedJson rules = OrderedJson::array();
  for (const BaselineRule& rule : spec.difference_to) {
    if (!rule.by_settings) {
      rules.push_back(rule.method);
      continue;
    }
    const bool is_label = std::any_of(methods.begin(), methods.end(), [&](const Cell& method) {
      return method.method == rule.method;
    });
    rules.push_back({{"method", is_label ? rule.method : without_settings(rule.method)}});
    if (!rule.same.empty()) rules.back()["same"] = rule.same;
  }
  table["difference_to"] = rules.size() == 1 ? rules.front() : rules;
  return table;
}

}  // namespace turnbench
