#include "methods/parts/budgeted_eviction.h"

namespace turnbench {

/// SnapKV (snapkv.cpp) with budgets that decrease linearly from the first layer to the last
/// (pyramid_budgets in budget_sharing.cpp; PyramidKV, section 3.2).
MethodInfo pyramidkv() {
  return {
      .name = "pyramidkv",
      .summary = "SnapKV with budgets that shrink from the first layer to the last",
      .paper =
          "Cai et al., PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information "
          "Funneling, 2024",
      .budget_unit =
          "prompt tokens kept per set in the mean over the layers, the window included; generated "
          "tokens come on top",
      .deviations =
          "the layers' budgets sum to the mean exactly, where the official code floors the step "
          "and spends up to 5% more (pyr_exact=false); one kept set per KV head by default "
          "(gran=query_head is the official code's); window and kernel are KVCache-Factory's; "
          "comp as in snapkv; SnapKV's scores are the paper's, other scorers are compositions of "
          "this project",
      .parameters = and_also(and_also(window_parameters("1024", "8", "7"), pyramid_parameters()),
                             and_also(compensation_parameters(), {scorer_parameter("snapkv")})),
      .make = [](const Parameters& p) {
        Policies out;
        out.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
            .window = window_settings("pyramidkv", p), .scorer = chosen_scorer(p)});
        return out;
      }};
}

}  // namespace turnbench
