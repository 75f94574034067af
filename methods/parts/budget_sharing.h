#pragma once

#include <span>
#include <vector>

namespace turnbench {

/// How layers share a budget that is given as a mean over the layers.
struct LayerRule {
  enum class Kind { kEqual, kPyramid, kList };
  Kind kind = Kind::kEqual;
  int beta = 20;                ///< pyramid: the last layer chooses 1/beta of the mean
  bool exact = true;            ///< the pyramid's layers sum to the mean times their number
  bool short_equal = true;      ///< no pyramid for prompts of less than twice the mean
  std::vector<double> weights;  ///< list: [layers]
};

// Budgets and caps of these functions are numbers of tokens per kept set.

/// Rounds `targets` to integers that sum to `total` (largest-remainder method): takes the floors,
/// then adds one each in descending order of the remainders (ties to the lower index), never above
/// a cap.  The sum is smaller only if all caps are reached.
std::vector<int> apportion(std::span<const double> targets, std::span<const int> caps, int total);

/// Tokens chosen per layer among `candidates`: [layers].  They decrease linearly from
/// 2 base - base / beta to base / beta with mean `base` (PyramidKV, section 3.2), and less steeply
/// if there are fewer candidates.  `exact` makes the sum layers * base; otherwise the step is
/// floored to an integer as in the official implementation, whose sum is larger.
std::vector<int> pyramid_budgets(int layers, int base, int beta, int candidates, bool exact);

/// Tokens per layer in proportion to `weights`: [layers], none above `candidates`.  The sum is
/// layers * base, where `base` is at most `candidates`.
std::vector<int> weighted_budgets(std::span<const double> weights, int base, int candidates);

/// Tokens that each head of a layer chooses: [heads].  Every head gets at least alpha * base (the
/// safeguard); the rest is proportional to `wanted`, the heads' counts in a joint top-k (Ada-KV,
/// Algorithm 1).  `exact` makes the sum equal that of `wanted`; otherwise each number is rounded,
/// half to even, as in the official implementation.
std::vector<int> safeguarded_budgets(std::span<const int> wanted, std::span<const int> caps,
                                     int base, double alpha, bool exact);

}  // namespace turnbench
