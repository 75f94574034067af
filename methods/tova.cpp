#include "methods/window_scores.h"

namespace turnbench {
namespace {

class Tova : public EvictionPolicy {
 public:
  Tova(LayerBudget budget, bool protect_last)
      : budget_(std::move(budget)), protect_last_(protect_last) {}
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<Tova>(*this); }
  int window() const override { return 1; }

  KeepSets after_prefill(const LayerView& view) override {
    kept_.resize(static_cast<std::size_t>(view.shape.layers));
    kept_[static_cast<std::size_t>(view.layer)] = 1 + std::max(0, budget_.choices(view, 1));
    return best(view);
  }
  KeepSets after_decode(const LayerView& view) override {
    return kept_.empty() ? KeepSets{} : best(view);
  }

 private:
  /// The tokens with the largest weight in the last row, meant over all heads: the same everywhere.
  KeepSets best(const LayerView& view) const {
    const int n = view.sets[0].size(),  // all sets are alike
        candidates = protect_last_ ? n - 1 : n;
    const int kept = kept_[static_cast<std::size_t>(view.layer)];
    if (n <= kept) return {};
    const std::vector<float> weights =
        group_scores(view.stats.window_mass(1), 0, view.shape.heads, candidates, GroupRule::kMean);
    return {{view.sets.size(), with_tail(top_k(weights, kept - (n - candidates)), candidates, n)}};
  }

  LayerBudget budget_;
  bool protect_last_;
  std::vector<int> kept_;  // tokens of each layer, from the end of a prompt on
};

}  // namespace

/// A cache of fixed size from which, step by step, the token leaves that the last query attends to
/// least.
MethodInfo tova() {
  using Kind = ParameterInfo::Kind;
  return {.name = "tova",
          .summary = "drops, at every step, the token that the last one attends to least",
          .paper = "Oren et al., Transformers are Multi-State RNNs, 2024",
          .budget_unit = "tokens kept per KV head, held while decoding",
          .deviations = "a decode step attends before the token leaves",
          .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                          "tokens kept per KV head"},
                         {"protect_last", Kind::kFlag, "false", "", "the last token never leaves"},
                         layers_parameter()},
          .make = [](const Parameters& p) {
            Policies out;
            out.eviction = std::make_unique<Tova>(layer_budget("tova", p), p.flag("protect_last"));
            return out;
          }};
}

}  // namespace turnbench
