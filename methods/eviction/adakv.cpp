#include "methods/parts/budgeted_eviction.h"

namespace turnbench {
namespace {

std::vector<ParameterInfo> ada_parameters() {
  using Kind = ParameterInfo::Kind;
  return and_also(
      window_parameters("1024", "32", "7", kPooledScorer),
      {scorer_parameter("snapkv"),
       {"floor_alpha", Kind::kNumber, "0.2", "share",
        "minimum number of tokens that a set chooses, as a share of the mean over the layer's sets",
        0, 1},
       {"ada_exact", Kind::kFlag, "true", "",
        "the sets' numbers of tokens sum to the budget; false: each is rounded separately, as in "
        "the official code"},
       {"normalize", Kind::kFlag, "false", "",
        "multiply a set's scores by the share of its total score that its best tokens have; no "
        "effect if the total is below 0 (scorers with scores below 0: keydiff, rkv)"},
       {"skip", Kind::kInteger, "0", "layers",
        "number of first layers whose sets have equal budgets"}});
}

Policies make_ada(std::string_view method, const Parameters& p) {
  WindowSettings window = window_settings(method, p);
  window.budget.rule.short_equal = false;  // KVCache-Factory's, not Ada-KV's
  const BudgetedEviction::AdaptiveSets adaptive{.floor_alpha = p.number("floor_alpha"),
                                                .exact = p.flag("ada_exact"),
                                                .normalize = p.flag("normalize"),
                                                .skipped_layers = p.integer("skip")};
  return Policies{.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                      .window = window, .scorer = chosen_scorer(p), .adaptive = adaptive})};
}

constexpr std::string_view kPaper =
    "Feng et al., Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient "
    "LLM Inference, 2024";

}  // namespace

/// Scores of SnapKV or another method, with a budget that is shared within a layer in favour of the
/// heads with the best tokens (Ada-KV, Algorithm 1): scores of each head -> joint top-k of all
/// heads -> its counts per head, never below floor_alpha of the mean -> top-k of each head, and the
/// window.
MethodInfo adakv() {
  return {.name = "adakv",
          .summary =
              "divides a layer's budget among its heads by the scores of SnapKV or another method",
          .paper = kPaper,
          .budget_unit =
              "prompt tokens kept per set, as a mean over a layer's sets, window included; "
              "generated tokens are not counted",
          .deviations =
              "sets sum to the budget exactly; the official code rounds each (ada_exact=false); "
              "one kept set per KV head by default; the official code keeps one per query head "
              "(gran=query_head); floor_alpha is that of the official LongBench runs (the README "
              "has 0.5); the paper uses SnapKV's scores; other scorers are combinations of "
              "this project",
          .parameters = and_also(ada_parameters(), {layers_parameter()}),
          .make = [](const Parameters& p) { return make_ada("adakv", p); }};
}

/// Ada-KV with the layer budgets of PyramidKV (pyramid_budgets in budget_sharing.cpp).
MethodInfo ada_pyramidkv() {
  return {
      .name = "ada-pyramidkv",
      .summary = "PyramidKV's budgets per layer, divided among the heads as in AdaKV",
      .paper = kPaper,
      .budget_unit =
          "prompt tokens kept per set, as a mean over all layers and sets, window included; "
          "generated tokens are not counted",
      .deviations =
          "those of adakv and pyramidkv, but layer budgets also decrease in short prompts; layer "
          "budgets are computed for each prompt; the official code computes them once, from the "
          "first prompt",
      .parameters = and_also(ada_parameters(), pyramid_parameters()),
      .make = [](const Parameters& p) { return make_ada("ada-pyramidkv", p); }};
}

}  // namespace turnbench
