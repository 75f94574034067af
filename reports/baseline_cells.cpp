#include "reports/baseline_cells.h"

namespace turnbench {
namespace {

std::vector<std::string> place_of(const Cell& cell, const std::string& method) {
  return {cell.model, cell.dataset, cell.position, cell.history, cell.answers, method};
}

}  // namespace

BaselineCells::BaselineCells(const Results& results, const BaselineRule& rule) {
  const std::vector<Cell> methods = distinct_methods(results.cells());
  for (const Cell& method : methods) {
    if (is_baseline(rule, method)) methods_.insert(method.method);
  }
  for (const Cell& method : methods) {
    if (has(method)) {
      baselines_[method.method] = method.method;
      continue;
    }
    // Several only in smoke runs, whose manifests may make different settings equal.
    const std::vector<const Cell*> candidates = baseline_candidates(rule, method, methods);
    if (!candidates.empty()) baselines_[method.method] = candidates.front()->method;
  }
  for (const Cell& cell : results.cells()) {
    if (has(cell)) cells_.try_emplace(place_of(cell, cell.method), &cell);
  }
}

const Cell* BaselineCells::of(const Cell& cell) const {
  const auto method = baselines_.find(cell.method);
  if (method == baselines_.end()) return nullptr;
  const auto found = cells_.find(place_of(cell, method->second));
  if (found == cells_.end()) return nullptr;
  // Probes measure other quantities than scores.
  return found->second->metric == cell.metric ? found->second : nullptr;
}

std::vector<std::string> names_of(const std::vector<BaselineRule>& rules) {
  std::vector<std::string> out;
  for (const BaselineRule& rule : rules) out.push_back(rule.name());
  return out;
}

}  // namespace turnbench
