#include "methods/eviction/snapkv.h"

#include "methods/parts/budgeted_eviction.h"

namespace turnbench {

std::shared_ptr<const EvictionScorer> snapkv_scorer(const Parameters& p) {
  AttentionScorer::Settings settings{.window = p.integer("window"), .group = group_rule(p)};
  if (p.has("kernel")) {
    settings.pooling = parse_pooling(p.choice("pool"));
    settings.kernel = p.integer("kernel");
  }
  return std::make_shared<AttentionScorer>(settings);
}

/// Keeps the last w tokens of the prompt (the window) and the tokens to which they attend most:
/// attention of the window's rows, summed -> reduced over the heads that share a set -> pooled
/// along the sequence -> top-k (Li et al., 2024; order of reduction and pooling as in Ada-KV's
/// official implementation).
MethodInfo snapkv() {
  return {
      .name = "snapkv",
      .summary = "keeps the tokens that the last tokens of the prompt attend to most",
      .paper = "Li et al., SnapKV: LLM Knows What You Are Looking for Before Generation, 2024",
      .budget_unit =
          "prompt tokens kept per set, window included; generated tokens are not counted",
      .deviations =
          "one kept set per KV head by default; the official code keeps one per query head "
          "(gran=query_head); window and kernel are those of the official LongBench runs; the "
          "PQCache paper gives no formula for its (C) baselines: comp=index is inferred, comp=all "
          "is the other interpretation",
      .parameters = and_also(and_also(window_parameters("1024", "32", "7"), {layers_parameter()}),
                             compensation_parameters()),
      .scorer = snapkv_scorer,
      .make = [](const Parameters& p) {
        return Policies{.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                            .window = window_settings("snapkv", p), .scorer = snapkv_scorer(p)})};
      }};
}

}  // namespace turnbench
