#include <algorithm>

#include "common/error.h"
#include "methods/window_scores.h"

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
    return {{view.sets.size(), chosen_}};
  }

 private:
  /// The best chunks, the last of them cut to fit, and the window.
  std::vector<std::int32_t> choose(const LayerView& view) const {
    const int n = view.sets[0].size(), candidates = n - s_.window;
    int left = s_.choices(view);
    if (left >= candidates) return all_slots(n);
    const std::vector<float> scores =
        s_.scores(view, {.first_head = 0, .heads = view.shape.heads, .tokens = n});
    std::vector<float> means;
    for (int begin = 0; begin < candidates; begin += chunk_) {
      const int end = std::min(begin + chunk_, candidates);
      float sum = 0;
      for (int j = begin; j < end; ++j) sum += scores[static_cast<std::size_t>(j)];
      means.push_back(sum / static_cast<float>(end - begin));
    }
    std::vector<std::int32_t> out;
    for (std::int32_t c : ranking(means)) {
      const int begin = c * chunk_, end = std::min({begin + chunk_, candidates, begin + left});
      for (int j = begin; j < end; ++j) out.push_back(j);
      left -= end - begin;
    }
    std::sort(out.begin(), out.end());
    return with_tail(std::move(out), candidates, n);
  }

  WindowSettings s_;
  int chunk_, reuse_;
  std::vector<std::int32_t> chosen_;  // by the first layer of a group, for all of it
};

}  // namespace

/// Keeps whole chunks of neighbouring tokens, the same for all heads of a layer, and may let the
/// layers that follow use a layer's choice.
MethodInfo chunkkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "chunkkv",
      .summary = "keeps whole chunks of the prompt that its last tokens attend to",
      .paper =
          "Liu et al., ChunkKV: Semantic-Preserving KV Cache Compression for Efficient "
          "Long-Context LLM Inference, 2025",
      .budget_unit = "prompt tokens kept per KV head, the window included; generated tokens on top",
      .deviations =
          "a chunk scores the mean of its tokens, as kvpress does; the last chunk is cut so that "
          "the budget is met exactly; the window's size is SnapKV's",
      .parameters =
          and_also(budget_parameters("1024", "32"),
                   {layers_parameter(),
                    {"chunk", Kind::kInteger, "10", "tokens", "tokens of a chunk", 1, 1000000},
                    {"reuse", Kind::kInteger, "1", "layers",
                     "consecutive layers that share the first one's choice", 1, 1000}}),
      .make = [](const Parameters& p) {
        const WindowSettings settings = budget_settings("chunkkv", p);
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
