#include "harness/experiment/baseline_rule.h"

#include <algorithm>

#include "common/text.h"
#include "harness/experiment/method_pattern.h"

namespace turnbench {

std::string BaselineRule::name() const {
  return same.empty() ? method : method + " (same " + join(same, ", ") + ")";
}

std::vector<Cell> distinct_methods(const std::vector<Cell>& cells) {
  std::vector<Cell> out;
  for (const Cell& cell : cells) {
    const bool is_new = std::none_of(out.begin(), out.end(),
                                     [&](const Cell& c) { return c.method == cell.method; });
    if (is_new) out.push_back(cell);
  }
  return out;
}

bool is_baseline(const BaselineRule& rule, const Cell& cell) {
  return rule.by_settings ? MethodPattern(rule.method).matches(cell) : cell.method == rule.method;
}

std::vector<const Cell*> baseline_candidates(const BaselineRule& rule, const Cell& compared,
                                             const std::vector<Cell>& methods) {
  std::vector<const Cell*> out;
  for (const Cell& method : methods) {
    const bool agrees =
        is_baseline(rule, method) &&
        std::all_of(rule.same.begin(), rule.same.end(), [&](const std::string& name) {
          const std::optional<std::string> value = setting_of(method, name);
          return value && value == setting_of(compared, name);
        });
    if (agrees) out.push_back(&method);
  }
  return out;
}

}  // namespace turnbench
