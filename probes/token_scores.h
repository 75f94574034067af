#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "methods/parts/layer_sums.h"
#include "probes/probe.h"

namespace turnbench {

/// Scores of the prompt's tokens: the attention that they receive from some query rows, summed over
/// all heads and layers (LoopServe, equations 4 and 5).
class TokenScores {
 public:
  explicit TokenScores(int prompt_tokens = 0) : prompt_tokens_(prompt_tokens) {}

  /// Adds the attention of `rows` in one layer.
  void add(LayerSums& layer, PositionRange rows);
  bool empty() const { return sums_.empty(); }
  /// Positions of the `count` tokens with the highest scores, ascending.  On ties the lower
  /// position is taken.
  std::vector<std::int32_t> top(int count) const;

 private:
  int prompt_tokens_;
  std::vector<double> sums_;
};

/// The overlap of the top tokens of two scores: the share of `budget` tokens that are in both.
/// Missing if the budget is less than one token.
ProbeResult top_token_overlap(const TokenScores& a, const TokenScores& b, const Budget& budget,
                              int prompt_tokens);

/// The rows of the answer in the pass of `Probe::observe_answer`.
PositionRange answer_rows(const LayerSums& layer, int prompt_tokens);

/// The parameter "budget".
ParameterInfo token_budget_parameter();

}  // namespace turnbench
