#include "methods/parts/eviction_scorer.h"
#include "methods/parts/heavy_hitters.h"

namespace turnbench {
namespace {

/// With the temperature of the prompt's rows.
std::shared_ptr<const EvictionScorer> keyformer_scorer(const Parameters& p) {
  return std::make_shared<AttentionScorer>(AttentionScorer::Settings{
      .all_rows = {.gumbel = true, .temperature = 1}, .group = group_rule(p)});
}

}  // namespace

/// H2O (heavy_hitters.cpp) with row weights softmax((logit + g) / tau): g is drawn from Gumbel(0,
/// 1), and tau increases linearly from tau_init to tau_end over the first t_max decode steps; the
/// official runners set t_max to the answer's length limit.  The noise affects only which tokens
/// are kept, not the attention outputs.
MethodInfo keyformer() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "keyformer",
      .summary =
          "keeps recent tokens and the tokens with the highest scores, which contain Gumbel noise",
      .paper =
          "Adnan et al., Keyformer: KV Cache Reduction through Key Tokens Selection for Efficient "
          "Generative Inference, 2024",
      .budget_unit =
          "tokens read per set and decode step, recent and current tokens included; one less is "
          "kept after the step",
      .deviations =
          "sums over the query heads of a KV head; the official code supports multi-head attention "
          "only; the noise is a function of dialogue, layer, head, row and key; the token just "
          "before the recent ones can be selected; the official code skips it",
      .parameters = {{"budget", Kind::kBudget, "0.6", "tokens or share", "tokens read per set"},
                     {"recent", Kind::kBudget, "0.3", "tokens, or share of the budget",
                      "most recent tokens, always read"},
                     {"noise", Kind::kFlag, "true", "", "Gumbel noise on the scores"},
                     {"tau_init", Kind::kNumber, "1", "", "temperature for the prompt's rows", 0.01,
                      100},
                     {"tau_end", Kind::kNumber, "2", "", "temperature after t_max tokens", 0.01,
                      100},
                     {"t_max", Kind::kInteger, "0", "tokens",
                      "answer tokens until the temperature is tau_end; 0: the answer's length "
                      "limit, as in the official runners"},
                     {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
                      "heads with separate kept sets"},
                     layers_parameter()},
      .budget_traits = {.counts_current = true},
      .scorer = keyformer_scorer,
      .make = [](const Parameters& p) {
        return Policies{.eviction = std::make_unique<HeavyHitters>(HeavyHitters::Settings{
                            .budget = layer_budget("keyformer", p),
                            .recent = p.budget("recent"),
                            .counts_current = true,
                            .per_query_head = p.choice("gran") == "query_head",
                            .gumbel_noise = p.flag("noise"),
                            .first_temperature = p.number("tau_init"),
                            .last_temperature = p.number("tau_end"),
                            .temperature_steps = p.integer("t_max")})};
      }};
}

}  // namespace turnbench
