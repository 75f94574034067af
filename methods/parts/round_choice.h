#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace turnbench {

/// Which rounds (or tokens) a turn reads, by the attention that its question gives them.
struct RoundChoice {
  enum class Rule {
    kFixed,     ///< more than `threshold` of what all get
    kTopK,      ///< the `share` with the most, rounded up
    kAdaptive,  ///< more than the mean and three standard deviations of the population
    kMean       ///< more than the mean
  };
  Rule rule = Rule::kTopK;
  double threshold = 0.1, share = 0.1;
};

/// fixed, topk, adaptive or mean.
RoundChoice::Rule parse_round_rule(const std::string& name);

/// Indices of those that are read, ascending: at least the one with the most attention.  Of equal
/// ones the first counts as the greater.  attention: of all candidates, which share it.
std::vector<std::int32_t> choose_rounds(std::span<const double> attention,
                                        const RoundChoice& choice);

}  // namespace turnbench
