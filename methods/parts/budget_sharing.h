#pragma once

#include <span>
#include <vector>

namespace turnbench {

/// How the layers share a budget that is given as their mean.
struct LayerRule {
  enum class Kind { kEqual, kPyramid, kList };
  Kind kind = Kind::kEqual;
  int beta = 20;                ///< of the pyramid: the last layer chooses 1/beta of the mean
  bool exact = true;            ///< the pyramid's layers sum to the mean times their number
  bool short_equal = true;      ///< no pyramid for prompts of less than twice the mean
  std::vector<double> weights;  ///< of the list: [layers]
};

// In all of these, budgets and caps are numbers of tokens per kept set.

/// Whole numbers near `targets` that sum to `total`: their floors, then one more each in the order
/// of the largest remainder (ties to the lower index), none above its cap.  The sum falls short
/// only if all caps are reached.
std::vector<int> apportion(std::span<const double> targets, std::span<const int> caps, int total);

/// Tokens that each layer chooses among `candidates`: [layers].  They fall linearly from
/// 2 base - base / beta to base / beta, `base` in the mean (PyramidKV, section 3.2), and less
/// steeply where there are not that many candidates.  `exact` makes the sum layers * base;
/// otherwise the step is a floored whole number, as in the reference code, whose sum is larger.
std::vector<int> pyramid_budgets(int layers, int base, int beta, int candidates, bool exact);

/// The same in proportion to `weights`: [layers], none above `candidates`.  The sum is
/// layers * base, where `base` is at most `candidates`.
std::vector<int> weighted_budgets(std::span<const double> weights, int base, int candidates);

/// Tokens that each head of a layer chooses: [heads].  Every head gets the floor alpha * base; the
/// rest follows `wanted`, the heads' counts in a joint top-k (Ada-KV, Algorithm 1).  `exact` makes
/// the sum that of `wanted`; otherwise each is rounded, half to even, as in the reference code.
std::vector<int> safeguarded_budgets(std::span<const int> wanted, std::span<const int> caps,
                                     int base, double alpha, bool exact);

}  // namespace turnbench
