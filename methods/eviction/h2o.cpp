#include "common/error.h"
#include "methods/parts/eviction_scorer.h"
#include "methods/parts/heavy_hitters.h"

namespace turnbench {
namespace {

/// Dense, but each prompt is prefilled in one pass from its first token on, because rows that see
/// later keys can be summed only once all of these are cached.
class WholePrompt : public Cloned<WholePrompt, PrefillPolicy> {
 public:
  std::vector<HeadPattern> plan(const LayerView&) override { return {}; }
};

std::shared_ptr<const EvictionScorer> h2o_scorer(const Parameters& p) {
  return std::make_shared<AttentionScorer>(AttentionScorer::Settings{.group = group_rule(p)});
}

}  // namespace

/// Heavy hitters (heavy_hitters.cpp): attention of all rows so far, summed per token -> summed over
/// the heads that share a set -> top-k between the sinks and the most recent tokens, which are
/// always kept.  mode=dynamic also evicts after each decode step (Zhang et al., 2023); mode=prefill
/// evicts once, after the prompt (KVCache-Factory).
MethodInfo h2o() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "h2o",
      .summary =
          "keeps the tokens with the most accumulated attention (heavy hitters) and the most "
          "recent ones",
      .paper =
          "Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large "
          "Language Models, 2023",
      .budget_unit =
          "tokens kept per set, recent ones included; sinks are included if the budget is a number "
          "of tokens; mode=dynamic: also while decoding; mode=prefill: generated tokens are not "
          "counted",
      .deviations =
          "one kept set per KV head by default (sums over its query heads); the official code has "
          "one per query head; the step that exceeds the budget attends before it evicts; "
          "mode=prefill is the variant of KVCache-Factory; with history=recompress, mode=dynamic "
          "keeps the sums of earlier turns, mode=prefill does not; mask=corner is that variant's "
          "mask until June 2026: it needs each prompt as a whole and cannot be combined with a "
          "prefill method; the official default is budget=0.2; comp as in snapkv; sinks as in "
          "PQCache's code: sinks=32,comp=index is its H2O(C)",
      .parameters = and_also(
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens kept per set"},
           {"mode", Kind::kChoice, "dynamic", "dynamic|prefill",
            "dynamic: evict after the prompt and while decoding; prefill: only after the prompt"},
           {"sinks", Kind::kInteger, "0", "tokens",
            "first tokens, always kept; if there are any, a ratio budget is a share of the other "
            "tokens, rounded down to an even number, and excludes the sinks"},
           {"recent", Kind::kBudget, "0.5", "tokens, or share of the budget",
            "most recent tokens, always kept", 0, 1e9, "mode=dynamic"},
           {"window", Kind::kInteger, "8", "tokens",
            "last tokens of the prompt: always kept (mode=prefill), rows with a causal mask "
            "(mask=corner)",
            1, 4096, "mode=prefill|mask=corner"},
           {"mask", Kind::kChoice, "causal", "causal|corner",
            "mask of the rows that give the scores; corner: all rows before the window see the "
            "whole prompt"},
           {"norm", Kind::kFlag, "false", "",
            "divide sums by the number of rows that see the token"},
           {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
            "heads with separate kept sets"},
           layers_parameter()},
          compensation_parameters()),
      .budget_traits = {.sinks_on_top = true},
      .scorer = h2o_scorer,
      .make = [](const Parameters& p) {
        const bool dynamic = p.choice("mode") == "dynamic";
        LayerBudget budget = layer_budget("h2o", p);
        budget.sinks = p.integer("sinks");
        const Budget recent =
            dynamic ? p.budget("recent") : Budget{false, static_cast<double>(p.integer("window"))};
        const bool sees_ahead = p.choice("mask") == "corner";
        if (sees_ahead && p.flag("norm"))
          throw input_error("h2o: found norm=true and mask=corner, expected one of them");
        Policies out;
        if (sees_ahead) out.prefill = std::make_unique<WholePrompt>();
        out.eviction = std::make_unique<HeavyHitters>(
            HeavyHitters::Settings{.budget = budget,
                                   .recent = recent,
                                   .dynamic = dynamic,
                                   .divide_by_rows = p.flag("norm"),
                                   .per_query_head = p.choice("gran") == "query_head",
                                   .causal_rows = sees_ahead ? p.integer("window") : 0});
        return out;
      }};
}

}  // namespace turnbench
