#include <limits>

#include "methods/window_scores.h"

namespace turnbench {
namespace {

class Tova : public EvictionPolicy {
 public:
  Tova(Budget budget, bool protect_last) : budget_(budget), protect_last_(protect_last) {}
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<Tova>(*this); }
  int window() const override { return 1; }

  KeepSets after_prefill(const LayerView& view) override {
    kept_ = std::max(1, budget_.tokens(view.sets[0].size()));
    return best(view);
  }
  KeepSets after_decode(const LayerView& view) override { return best(view); }

 private:
  /// The tokens with the largest weight in the last row, meant over all heads: the same everywhere.
  KeepSets best(const LayerView& view) const {
    const int n = view.sets[0].size(), candidates = protect_last_ ? n - 1 : n;
    if (n <= kept_) return {};
    const std::vector<float> weights =
        group_scores(view.stats.window_mass(1), 0, view.shape.heads, candidates, GroupRule::kMean);
    return {{view.sets.size(), with_tail(top_k(weights, kept_ - (n - candidates)), candidates, n)}};
  }

  Budget budget_;
  bool protect_last_;
  int kept_ = std::numeric_limits<int>::max();  // everything, until a prompt ends
};

}  // namespace

/// A cache of fixed size from which, step by step, the token leaves that the last query attends to
/// least.
MethodInfo tova() {
  using Kind = ParameterInfo::Kind;
  return {.name = "tova",
          .summary = "drops, at every step, the token that the last one attends to least",
          .paper = "Oren et al., Transformers are Multi-State RNNs, 2024",
          .counts = "tokens kept per KV head, held while decoding",
          .deviates = "a decode step attends before the token leaves",
          .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                          "tokens kept per KV head"},
                         {"protect_last", Kind::kFlag, "false", "", "the last token never leaves"}},
          .make = [](const Parameters& p) {
            Policies out;
            out.eviction = std::make_unique<Tova>(p.budget("budget"), p.flag("protect_last"));
            return out;
          }};
}

}  // namespace turnbench
