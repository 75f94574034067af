#include "methods/parts/eviction_scorer.h"

#include "common/error.h"

namespace turnbench {

std::vector<ColumnRule> AttentionScorer::columns() const {
  return s_.window > 0 ? std::vector<ColumnRule>() : std::vector{s_.all_rows};
}

int AttentionScorer::summed_rows(const LayerView& view) const {
  return s_.window > 0 ? view.stats.window_rows(s_.window)
                       : view.stats.column_mass(s_.all_rows).rows;
}

std::vector<float> AttentionScorer::scores(const LayerView& view, const KeptSet& set,
                                           int candidates) const {
  const HeadScores& attention =  // [query heads, n]: softmax(q k / sqrt(d)), summed over rows
      s_.window > 0 ? view.stats.window_mass(s_.window)
                    : view.stats.column_mass(s_.all_rows).scores;
  const std::vector<float> reduced =  // [candidates]
      group_scores(attention, set.first_head, set.heads, candidates, s_.group);
  return pool1d(reduced, s_.kernel, s_.pooling);
}

GroupRule group_rule(const Parameters& p) {
  return p.has("gqa_agg") ? parse_group_rule(p.choice("gqa_agg")) : GroupRule::kMean;
}

ParameterInfo scorer_parameter(std::string_view fallback) {
  return {kScorerParameter, ParameterInfo::Kind::kScorer, fallback, "",
          "method whose scores rank the tokens before the window, for each kept set; its own "
          "parameters have their defaults (keyformer: with noise), but the window is this "
          "method's"};
}

std::shared_ptr<const EvictionScorer> chosen_scorer(const Parameters& p) {
  const MethodInfo& method = find_method(p.choice(kScorerParameter), "scorer");
  std::shared_ptr<const EvictionScorer> out = method.scorer(p);
  if (out == nullptr)
    throw runtime_error("{}: its scorer is null, expected an EvictionScorer", method.name);
  return out;
}

}  // namespace turnbench
