#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace turnbench {

/// Rule that selects the rounds (or tokens) that a turn reads, by the attention from its question.
struct RoundChoice {
  enum class Rule {
    kFixed,     ///< more than a share `threshold` of the attention to all candidates
    kTopK,      ///< the share `share` of candidates with the highest attention, rounded up
    kAdaptive,  ///< more than the mean plus three population standard deviations
    kMean       ///< more than the mean
  };
  Rule rule = Rule::kTopK;
  double threshold = 0.1, share = 0.1;
};

/// name: fixed, topk, adaptive or mean.
RoundChoice::Rule parse_round_rule(const std::string& name);

/// Indices of the selected candidates, ascending; at least the one with the highest attention.
/// Ties go to the lower index.  attention: of all candidates.
std::vector<std::int32_t> choose_rounds(std::span<const double> attention,
                                        const RoundChoice& choice);

}  // namespace turnbench
