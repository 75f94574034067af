#include "common/error.h"
#include "methods/parts/budgeted_eviction.h"

namespace turnbench {

/// Keeps whole chunks of neighbouring tokens, the same for all heads of a layer: attention of the
/// window's rows, summed -> mean over all heads -> mean over each chunk -> best chunks, and the
/// window.  With reuse=N, the first of every N layers chooses for all of them (Liu et al., 2025).
MethodInfo chunkkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "chunkkv",
      .summary = "keeps the chunks of the prompt that its last tokens attend to most",
      .paper =
          "Liu et al., ChunkKV: Semantic-Preserving KV Cache Compression for Efficient "
          "Long-Context LLM Inference, 2025",
      .budget_unit =
          "prompt tokens kept per KV head, window included; generated tokens are not counted",
      .deviations =
          "a chunk's score is the mean of its tokens' scores over all KV heads of the layer, which "
          "keep "
          "the same tokens, as in kvpress; the last chunk is cut "
          "so that the budget is used exactly; the window size is SnapKV's; the paper uses "
          "SnapKV's scores without pooling; other scorers are combinations of this project",
      .parameters = and_also(budget_and_window_parameters("1024", "32"),
                             {layers_parameter(),
                              {"chunk", Kind::kInteger, "10", "tokens", "chunk size", 1, 1000000},
                              {"reuse", Kind::kInteger, "1", "layers",
                               "consecutive layers that use the first one's selection", 1, 1000},
                              scorer_parameter("snapkv")}),
      .make = [](const Parameters& p) {
        const WindowSettings settings = budget_and_window_settings("chunkkv", p);
        if (p.integer("reuse") > 1 && settings.budget.rule.kind != LayerRule::Kind::kEqual) {
          throw input_error(
              "chunkkv: found reuse={} with layers of different budgets, expected layers=equal",
              p.integer("reuse"));
        }
        return Policies{.eviction = std::make_unique<BudgetedEviction>(
                            BudgetedEviction::Settings{.window = settings,
                                                       .scorer = chosen_scorer(p),
                                                       .one_choice = true,
                                                       .chunk = p.integer("chunk"),
                                                       .reuse = p.integer("reuse")})};
      }};
}

}  // namespace turnbench
