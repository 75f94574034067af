#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/layer_sums.h"
#include "probes/probe.h"

namespace turnbench {

/// Scores of the prompt's tokens: what some query rows give them, summed over all heads and layers
/// (LoopServe, equations 4 and 5).
class TokenScores {
 public:
  explicit TokenScores(int prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  /// Adds what rows of a layer give.
  void add(LayerSums& layer, Range rows);
  bool empty() const { return sums_.empty(); }
  /// The `count` best tokens, ascending; the lower position first on ties.
  std::vector<std::int32_t> best(int count) const;

 private:
  int prompt_tokens_;
  std::vector<double> sums_;
};

/// The share of `budget` tokens that are best by both; missing if the budget is no token.
Measured best_in_common(const TokenScores& a, const TokenScores& b, const Budget& budget,
                        int prompt_tokens);

/// Rows of the answer in a layer that has been seen with it.
Range answer_rows(const LayerSums& layer, int prompt_tokens);

/// Parameter "budget".
ParameterInfo token_budget();

}  // namespace turnbench
