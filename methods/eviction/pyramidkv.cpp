#include "methods/parts/budgeted_eviction.h"

namespace turnbench {

/// SnapKV (snapkv.cpp) with budgets that decrease linearly from the first layer to the last
/// (pyramid_budgets in budget_sharing.cpp; PyramidKV, section 3.2).
MethodInfo pyramidkv() {
  return {
      .name = "pyramidkv",
      .summary = "SnapKV with budgets that decrease from the first layer to the last",
      .paper =
          "Cai et al., PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information "
          "Funneling, 2024",
      .budget_unit =
          "prompt tokens kept per set, as a mean over the layers, window included; generated "
          "tokens are not counted",
      .deviations =
          "the mean of the layers' budgets is exact; the official code rounds the step down and "
          "uses up to 5% more (pyr_exact=false); one kept set per KV head by default; the official "
          "code keeps one per query head (gran=query_head); window and kernel are "
          "KVCache-Factory's; comp as in snapkv; the paper uses SnapKV's scores; other scorers are "
          "combinations of this project",
      .parameters = and_also(
          and_also(window_parameters("1024", "8", "7", kPooledScorer), pyramid_parameters()),
          and_also(compensation_parameters(), {scorer_parameter("snapkv")})),
      .make = [](const Parameters& p) {
        return Policies{
            .eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                .window = window_settings("pyramidkv", p), .scorer = chosen_scorer(p)})};
      }};
}

}  // namespace turnbench
