#include "methods/parts/budgeted_eviction.h"

namespace turnbench {

/// Chooses tokens in two stages: half of the budget by the scores of SnapKV or another method, the
/// rest by score times the norm of the value after the output projection (Feng et al., 2025,
/// Algorithm 1); within a layer, heads may have unequal budgets as in Ada-KV.
MethodInfo criticalkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "criticalkv",
      .summary = "keeps tokens with high attention and a large contribution to the layer's output",
      .paper =
          "Feng et al., Identify Critical KV Cache in LLM Inference from an Output Perturbation "
          "Perspective, 2025",
      .budget_unit =
          "prompt tokens kept per set (with floor_alpha below 1: as a mean over a layer's sets), "
          "window included; generated tokens are not counted",
      .deviations =
          "order, epsilon and rounding as in kvpress (CriticalKVPress, CriticalAdaKVPress): the "
          "first stage counts the window; norms are means over the query heads that share a set; "
          "with floor_alpha above 0, kvpress keeps the safeguarded tokens before the first stage, "
          "which chooses the same tokens unless their share exceeds first_stage; of scores below 0 "
          "(keydiff, rkv), the second stage prefers small norms, as in kvpress",
      .parameters = and_also(
          window_parameters("1024", "32", "7", kPooledScorer),
          {scorer_parameter("snapkv"),
           {"first_stage", Kind::kNumber, "0.5", "share",
            "part of the budget that the first stage chooses, window included", 0, 1},
           {"epsilon", Kind::kNumber, "0.0001", "",
            "added to the mean attention probability of a token in the second stage", 0, 1},
           {"floor_alpha", Kind::kNumber, "1", "share",
            "minimum number of tokens that a set chooses, as a share of the mean over the layer's "
            "sets; 1: all sets have the same budget; below 1, adakv's division (CriticalAdaKV)",
            0, 1},
           layers_parameter()}),
      .make = [](const Parameters& p) {
        BudgetedEviction::Settings settings{.window = window_settings("criticalkv", p),
                                            .scorer = chosen_scorer(p)};
        settings.two_stages = {.first_share = p.number("first_stage"),
                               .epsilon = p.number("epsilon")};
        if (p.number("floor_alpha") < 1)
          settings.adaptive = {.floor_alpha = p.number("floor_alpha")};
        return Policies{.eviction = std::make_unique<BudgetedEviction>(std::move(settings))};
      }};
}

}  // namespace turnbench
