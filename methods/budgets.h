#pragma once

#include <span>
#include <vector>

namespace turnbench {

/// How the layers share a budget that is their mean.
struct LayerRule {
  enum class Kind { kEqual, kPyramid, kList };
  Kind kind = Kind::kEqual;
  int beta = 20;                ///< of the pyramid: the last layer chooses 1/beta of the mean
  bool exact = true;            ///< the pyramid's layers sum to the mean's multiple
  bool short_equal = true;      ///< no pyramid for prompts of less than twice the mean
  std::vector<double> weights;  ///< of the list, one per layer
};

/// Whole numbers near `targets` that sum to `total`: their floors, then one more each in the order
/// of the largest remainder (ties to the lower index), none above its cap.  The sum falls short
/// only if all caps are reached.
std::vector<int> apportion(std::span<const double> targets, std::span<const int> caps, int total);

/// How many tokens each of `layers` layers chooses among `candidates` when `base` is the mean:
/// decreasing linearly from 2 base - base / beta to base / beta (PyramidKV, section 3.2), and
/// flatter where there are not that many.  `exact` makes the sum layers * base; otherwise the step
/// is a floored whole number, as in the reference code, whose sum is larger.
std::vector<int> pyramid_budgets(int layers, int base, int beta, int candidates, bool exact);

/// The same by weights: in proportion to them, none above `candidates`; the sum is layers * base,
/// where `base` is at most `candidates`.
std::vector<int> weighted_budgets(std::span<const double> weights, int base, int candidates);

/// How many tokens each head of a layer chooses: `alpha` of `base` is a floor that everyone gets,
/// the rest follows `wanted`, the counts of a joint top-k (AdaKV, Algorithm 1).  `exact` makes the
/// sum that of `wanted`; otherwise each is rounded, half to even, as in the reference code.
std::vector<int> safeguarded_budgets(std::span<const int> wanted, std::span<const int> caps,
                                     int base, double alpha, bool exact);

}  // namespace turnbench
