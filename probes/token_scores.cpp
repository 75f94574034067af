#include "probes/token_scores.h"

#include <algorithm>
#include <iterator>

#include "methods/parts/scores.h"

namespace turnbench {

void TokenScores::add(LayerSums& layer, PositionRange rows) {
  sums_.resize(static_cast<std::size_t>(prompt_tokens_), 0.0);
  const std::vector<double> columns = layer.column_mass(rows, prompt_tokens_);
  std::transform(columns.begin(), columns.end(), sums_.begin(), sums_.begin(), std::plus<>());
}

std::vector<std::int32_t> TokenScores::top(int count) const {
  return top_k(std::vector<float>(sums_.begin(), sums_.end()), count);
}

ProbeResult top_token_overlap(const TokenScores& a, const TokenScores& b, const Budget& budget,
                              int prompt_tokens) {
  const int count = std::min(budget.tokens(prompt_tokens), prompt_tokens);
  if (count == 0) return {0, "the budget is less than one token of so short a prompt"};
  const std::vector<std::int32_t> left = a.top(count), right = b.top(count);
  std::vector<std::int32_t> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::back_inserter(both));
  return {static_cast<double>(both.size()) / count, ""};
}

PositionRange answer_rows(const LayerSums& layer, int prompt_tokens) {
  return {prompt_tokens, layer.rows().end};
}

ParameterInfo token_budget_parameter() {
  return {"budget",
          ParameterInfo::Kind::kBudget,
          "0.1",
          "tokens or share",
          "number of prompt tokens that are important: those with the highest attention",
          1};
}

}  // namespace turnbench
