#include "methods/eviction/snapkv.h"

#include "methods/parts/kept_sets.h"

namespace turnbench {
namespace {

class SnapKv : public EvictionPolicy {
 public:
  explicit SnapKv(const WindowSettings& s) : s_(s) {}
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<SnapKv>(*this); }
  int window() const override { return s_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    const int k = s_.choices(view);  // tokens chosen before the window
    KeepSets out;
    for (const KeptSet& set : kept_sets(view, s_.per_query_head)) {
      const int n = set.tokens, candidates = n - s_.window;
      if (k >= candidates) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      // [query heads, n]: softmax(q k / sqrt(d)), summed over the window's rows.
      const HeadScores& attention = view.stats.window_mass(s_.window);
      const std::vector<float> reduced =  // [candidates]
          group_scores(attention, set.first_head, set.heads, candidates, s_.group);
      const std::vector<float> pooled = pool1d(reduced, s_.kernel, s_.pooling);  // [candidates]
      out.slots.push_back(with_tail(top_k(pooled, k), candidates, n));           // [k + window]
    }
    return out;
  }

 private:
  WindowSettings s_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_snapkv(const WindowSettings& settings) {
  return std::make_unique<SnapKv>(settings);
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
      .make = [](const Parameters& p) {
        Policies out;
        out.eviction = make_snapkv(window_settings("snapkv", p));
        return out;
      }};
}

}  // namespace turnbench
