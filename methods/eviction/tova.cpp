#include <algorithm>

#include "methods/parts/budget_parameters.h"
#include "methods/parts/eviction_scorer.h"

namespace turnbench {
namespace {

constexpr AttentionScorer::Settings kLastRow{.window = 1};

std::shared_ptr<const EvictionScorer> tova_scorer(const Parameters& p) {
  AttentionScorer::Settings settings = kLastRow;
  settings.group = group_rule(p);
  return std::make_shared<AttentionScorer>(settings);
}

class Tova : public Cloned<Tova, EvictionPolicy> {
 public:
  Tova(LayerBudget budget, bool protect_last, bool in_answers)
      : budget_(std::move(budget)), protect_last_(protect_last), in_answers_(in_answers) {}
  int window() const override { return scorer_.window(); }

  KeepSets after_prefill(const LayerView& view) override {
    budgets_.resize(static_cast<std::size_t>(view.shape.layers));
    budgets_[view.layer] = 1 + std::max(0, budget_.choices(view, 1));
    return evict(view);
  }
  bool evicts_in_answers() const override { return in_answers_; }
  KeepSets after_decode(const LayerView& view) override {
    return budgets_.empty() ? KeepSets{} : evict(view);
  }

 private:
  /// Attention of the last row -> mean over all query heads -> top-k: the same tokens in every set.
  KeepSets evict(const LayerView& view) const {
    const int n = view.sets[0].size(), budget = budgets_[view.layer];
    if (n <= budget) return {};
    const int always = protect_last_ ? 1 : 0, candidates = n - always;
    const std::vector<float> scores =  // [candidates]
        scorer_.scores(view, whole_layer(view), candidates);
    return in_every_set(view, with_tail(top_k(scores, budget - always), candidates, n));
  }

  LayerBudget budget_;
  bool protect_last_, in_answers_;
  AttentionScorer scorer_{kLastRow};
  std::vector<int> budgets_;  // [layers]: tokens, determined at the end of a prompt
};

}  // namespace

/// A cache of fixed size: after the prompt and after each step it keeps the tokens to which the
/// last query attends most, by the mean over all query heads of the layer (Oren et al., 2024).
/// mode=prefill evicts once, after the prompt (kvpress).
MethodInfo tova() {
  using Kind = ParameterInfo::Kind;
  return {.name = "tova",
          .summary = "evicts, at every step, the token that the last one attends to least",
          .paper = "Oren et al., Transformers are Multi-State RNNs, 2024",
          .budget_unit =
              "tokens kept per KV head, also while decoding; mode=prefill: generated tokens are "
              "not counted",
          .deviations =
              "a decode step attends before it evicts; mode=prefill is the variant of kvpress",
          .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                          "tokens kept per KV head"},
                         {"mode", Kind::kChoice, "dynamic", "dynamic|prefill",
                          "dynamic: evict after the prompt and while decoding; prefill: only after "
                          "the prompt"},
                         {"protect_last", Kind::kFlag, "false", "", "never evict the last token"},
                         layers_parameter()},
          .scorer = tova_scorer,
          .make = [](const Parameters& p) {
            return Policies{.eviction = std::make_unique<Tova>(layer_budget("tova", p),
                                                               p.flag("protect_last"),
                                                               p.choice("mode") == "dynamic")};
          }};
}

}  // namespace turnbench
