#include "methods/parts/budgeted_eviction.h"

namespace turnbench {
namespace {

std::vector<ParameterInfo> ada_parameters() {
  using Kind = ParameterInfo::Kind;
  return and_also(
      window_parameters("1024", "32", "7"),
      {scorer_parameter("snapkv"),
       {"floor_alpha", Kind::kNumber, "0.2", "share", "part of the budget that no set goes below",
        0, 1},
       {"ada_exact", Kind::kFlag, "true", "",
        "sets sum to the budget; false: each is rounded, as in the official code"},
       {"normalize", Kind::kFlag, "false", "",
        "scores times the share of a set's mass that its own best tokens hold"},
       {"skip", Kind::kInteger, "0", "layers", "first layers that share their budget equally"}});
}

Policies make_ada(std::string_view method, const Parameters& p) {
  WindowSettings window = window_settings(method, p);
  window.budget.rule.short_equal = false;  // KVCache-Factory's, not Ada-KV's
  const BudgetedEviction::AdaptiveSets adaptive{.floor_alpha = p.number("floor_alpha"),
                                                .exact = p.flag("ada_exact"),
                                                .normalize = p.flag("normalize"),
                                                .skipped_layers = p.integer("skip")};
  Policies out;
  out.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
      .window = window, .scorer = chosen_scorer(p), .adaptive = adaptive});
  return out;
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
              "a layer's budget shared out to its heads by the scores of SnapKV or another method",
          .paper = kPaper,
          .budget_unit =
              "prompt tokens kept per set in the mean over a layer's sets, the window included; "
              "generated tokens come on top",
          .deviations =
              "sets sum to the budget exactly, where the official code rounds each "
              "(ada_exact=false); one kept set per KV head by default, where it keeps one per "
              "query head (gran=query_head); floor_alpha is that of its LongBench runs (its "
              "README says 0.5); SnapKV's scores are the paper's, other scorers are compositions "
              "of this project",
          .parameters = and_also(ada_parameters(), {layers_parameter()}),
          .make = [](const Parameters& p) { return make_ada("adakv", p); }};
}

/// Ada-KV with the layer budgets of PyramidKV (pyramid_budgets in budget_sharing.cpp).
MethodInfo ada_pyramidkv() {
  return {
      .name = "ada-pyramidkv",
      .summary = "PyramidKV's budgets per layer, AdaKV's per head",
      .paper = kPaper,
      .budget_unit =
          "prompt tokens kept per set in the mean over all layers and sets, the window included; "
          "generated tokens come on top",
      .deviations =
          "as adakv and pyramidkv; layer budgets follow each prompt, where the official code "
          "computes them once from the first",
      .parameters = and_also(ada_parameters(), pyramid_parameters()),
      .make = [](const Parameters& p) { return make_ada("ada-pyramidkv", p); }};
}

}  // namespace turnbench
