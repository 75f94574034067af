#include <algorithm>

#include "common/error.h"
#include "methods/parts/window_settings.h"

namespace turnbench {
namespace {

class ChunkKv : public EvictionPolicy {
 public:
  ChunkKv(const WindowSettings& s, int chunk, int reuse) : s_(s), chunk_(chunk), reuse_(reuse) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<ChunkKv>(*this);
  }
  int window() const override { return s_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    if (view.layer % reuse_ == 0) chosen_ = choose(view);
    return in_every_set(view, chosen_);
  }

 private:
  /// The tokens of the best chunks, and the window.
  std::vector<std::int32_t> choose(const LayerView& view) const {
    const int n = view.sets[0].size(), candidates = n - s_.window;  // all sets hold the same tokens
    const int k = s_.choices(view);  // tokens chosen before the window
    if (k >= candidates) return all_slots(n);
    // [query heads, n]: softmax(q k / sqrt(d)), summed over the window's rows.
    const HeadScores& attention = view.stats.window_mass(s_.window);
    const std::vector<float> scores =  // [candidates]
        group_scores(attention, 0, view.shape.heads, candidates, GroupRule::kMean);
    const std::vector<std::int32_t> best = ranking(chunk_means(scores));  // [chunks]
    return with_tail(tokens_of(best, candidates, k), candidates, n);      // [k + window]
  }

  /// Mean score of each chunk: [ceil(candidates / chunk)].
  std::vector<float> chunk_means(std::span<const float> scores) const {
    const int candidates = static_cast<int>(scores.size());
    std::vector<float> out = block_sums(scores, chunk_);
    for (int c = 0; c < static_cast<int>(out.size()); ++c) {
      const int size = std::min(chunk_, candidates - c * chunk_);
      out[static_cast<std::size_t>(c)] /= static_cast<float>(size);
    }
    return out;
  }

  /// The first `k` tokens of `chunks` in this order, with the last chunk truncated to fit: [k],
  /// ascending.
  std::vector<std::int32_t> tokens_of(std::span<const std::int32_t> chunks, int candidates,
                                      int k) const {
    std::vector<std::int32_t> out;
    for (std::int32_t c : chunks) {
      const int begin = c * chunk_, left = k - static_cast<int>(out.size());
      const int end = std::min({begin + chunk_, candidates, begin + left});
      for (int j = begin; j < end; ++j) out.push_back(j);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  WindowSettings s_;
  int chunk_, reuse_;
  std::vector<std::int32_t> chosen_;  // slots, shared by `reuse_` layers
};

}  // namespace

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
          "a chunk's score is the mean of its tokens' scores, as in kvpress; the last chunk is cut "
          "so that the budget is used exactly; the window size is SnapKV's",
      .parameters = and_also(budget_and_window_parameters("1024", "32"),
                             {layers_parameter(),
                              {"chunk", Kind::kInteger, "10", "tokens", "chunk size", 1, 1000000},
                              {"reuse", Kind::kInteger, "1", "layers",
                               "consecutive layers that use the first one's selection", 1, 1000}}),
      .make = [](const Parameters& p) {
        const WindowSettings settings = budget_and_window_settings("chunkkv", p);
        if (p.integer("reuse") > 1 && settings.budget.rule.kind != LayerRule::Kind::kEqual) {
          throw input_error(
              "chunkkv: found reuse={} with layers of different budgets, expected layers=equal",
              p.integer("reuse"));
        }
        Policies out;
        out.eviction = std::make_unique<ChunkKv>(settings, p.integer("chunk"), p.integer("reuse"));
        return out;
      }};
}

}  // namespace turnbench
