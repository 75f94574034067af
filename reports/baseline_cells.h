#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// The cells of the baseline methods of one rule.  `results` must outlive it.
class BaselineCells {
 public:
  BaselineCells(const Results& results, const BaselineRule& rule);

  /// The cell of the method's baseline with the same model, dataset, position, history and answers;
  /// null if there is none.  The baseline of a baseline is itself.
  const Cell* of(const Cell& cell) const;
  /// Whether the cell's method is a baseline itself.
  bool has(const Cell& cell) const { return methods_.contains(cell.method); }
  /// Whether the cell's method has a baseline.
  bool has_baseline(const Cell& cell) const { return baselines_.contains(cell.method); }

 private:
  std::set<std::string> methods_;                 ///< labels of the baselines
  std::map<std::string, std::string> baselines_;  ///< label of a method -> label of its baseline
  std::map<std::vector<std::string>, const Cell*> cells_;
};

/// The names of the rules, for headings: "full", "snapkv (same budget)".
std::vector<std::string> names_of(const std::vector<BaselineRule>& rules);

}  // namespace turnbench
