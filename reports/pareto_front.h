#pragma once

#include <optional>
#include <vector>

namespace turnbench {

/// A method's mean score and its mean cost, if it was measured.
struct QualityAndCost {
  double quality = 0;  ///< larger is better
  std::optional<double> cost;
};

/// For each method, whether it is on the Pareto front: no other method has at least its quality and
/// at most its cost, one of them strictly.  Methods without a cost are not on the front, and keep
/// no other method from it.
std::vector<bool> pareto_front(const std::vector<QualityAndCost>& methods);

}  // namespace turnbench
