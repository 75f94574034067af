#include "common/error.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class SnapKv : public EvictionPolicy {
 public:
  struct Settings {
    Budget budget;
    int window, kernel;
    Pooling pooling;
    GroupRule group;
    bool per_query_head;
  };
  explicit SnapKv(const Settings& s) : s_(s) {}

  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<SnapKv>(*this); }
  int window() const override { return s_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    KeepSets out;
    const int sets = s_.per_query_head ? view.shape.heads : static_cast<int>(view.sets.size());
    const int heads = view.shape.heads / sets;
    for (int i = 0; i < sets; ++i) {
      const KvSet& set = view.sets[static_cast<std::size_t>(i) * view.sets.size() /
                                   static_cast<std::size_t>(sets)];
      out.slots.push_back(kept(view, set.size(), i * heads, heads));
    }
    return out;
  }

 private:
  /// The window, and the tokens before it with the highest pooled scores.
  std::vector<std::int32_t> kept(const LayerView& view, int n, int first_head, int heads) const {
    const int budget = s_.budget.tokens(n);
    if (n <= budget || n <= s_.window + 1) return all_slots(n);
    if (budget <= s_.window) {
      throw input_error(
          "snapkv: found a budget of {} tokens of {}, expected more than the window of {}", budget,
          n, s_.window);
    }
    const int candidates = n - s_.window;
    const std::vector<float> scores =
        group_scores(view.stats.window_mass(s_.window), first_head, heads, candidates, s_.group);
    return with_tail(top_k(pool1d(scores, s_.kernel, s_.pooling), budget - s_.window), candidates,
                     n);
  }

  Settings s_;
};

}  // namespace

/// Keeps the last w tokens of the prompt and what they attend to most: attention probabilities of
/// the last w rows, summed, reduced over the heads that share a set, pooled along the sequence,
/// top-k.
MethodInfo snapkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "snapkv",
      .summary = "keeps what the last tokens of the prompt attend to",
      .paper = "Li et al., SnapKV: LLM Knows What You Are Looking for Before Generation, 2024",
      .counts = "prompt tokens kept per set, the window included; generated tokens come on top",
      .deviates =
          "one kept set per KV head by default, where the official code keeps one per query head "
          "(gran=query_head)",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per set"},
                     {"window", Kind::kInteger, "32", "tokens", "observation window", 1, 4096},
                     {"kernel", Kind::kInteger, "7", "tokens", "width of the pooling, odd", 1, 255},
                     {"pool", Kind::kChoice, "max", "max|avg|none", "pooling of the scores"},
                     {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
                      "what has a kept set of its own"},
                     {"gqa_agg", Kind::kChoice, "mean", "mean|max|sum",
                      "reduction over the query heads of a KV head"}},
      .make = [](const Parameters& p) {
        if (p.integer("kernel") % 2 == 0) {
          throw input_error("snapkv: kernel: found {}, expected an odd number",
                            p.integer("kernel"));
        }
        const Budget budget = p.budget("budget");
        if (!budget.is_ratio && budget.value <= p.integer("window")) {
          throw input_error(
              "snapkv: found a budget of {} and a window of {}, expected a larger budget",
              budget.value, p.integer("window"));
        }
        Policies out;
        out.eviction = std::make_unique<SnapKv>(SnapKv::Settings{
            budget, p.integer("window"), p.integer("kernel"), parse_pooling(p.choice("pool")),
            parse_group_rule(p.choice("gqa_agg")), p.choice("gran") == "query_head"});
        return out;
      }};
}

}  // namespace turnbench
