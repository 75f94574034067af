#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/store/cell.h"

namespace turnbench {

/// Which method is the baseline of a difference.
struct BaselineRule {
  /// The label of one method; with `by_settings`, a pattern (see MethodPattern).
  std::string method;
  /// With `by_settings`: the parameters in which the baseline equals the compared method.
  std::vector<std::string> same = {};
  bool by_settings = false;

  /// "full", "snapkv (same budget)".
  std::string name() const;
  bool operator==(const BaselineRule& other) const = default;
};

/// A cell of each method or probe, in the order of the first cells.  Of these cells, only the
/// method matters.
std::vector<Cell> distinct_methods(const std::vector<Cell>& cells);

/// The methods among `methods` that may be the baseline of `compared`: one, if the rule is well
/// defined for it.
std::vector<const Cell*> baseline_candidates(const BaselineRule& rule, const Cell& compared,
                                             const std::vector<Cell>& methods);

/// Whether a cell's method is a baseline itself, and not compared with others.
bool is_baseline(const BaselineRule& rule, const Cell& cell);

}  // namespace turnbench
