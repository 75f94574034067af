#include "common/error.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class StreamingLlm : public Cloned<StreamingLlm, EvictionPolicy> {
 public:
  StreamingLlm(LayerBudget budget, int sinks, bool shift, bool rolling)
      : budget_(std::move(budget)), sinks_(sinks), shift_(shift), rolling_(rolling) {}

  bool shifts_positions() const override { return shift_; }

  KeepSets after_prefill(const LayerView& view) override {
    const int n = view.prompt_tokens, budget = budget_.tokens(n);
    if (n <= sinks_) return {};
    if (budget <= sinks_) {
      throw input_error(
          "streamingllm: found a budget of {} tokens of {}, expected more than the {} sinks",
          budget, n, sinks_);
    }
    recent_.resize(static_cast<std::size_t>(view.shape.layers));
    recent_[view.layer] = budget_.choices(view, sinks_);
    return drop_middle(view);
  }

  bool evicts_in_answers() const override { return rolling_; }
  KeepSets after_decode(const LayerView& view) override {
    return recent_.empty() ? KeepSets{} : drop_middle(view);
  }

 private:
  /// The sinks and the layer's most recent tokens: the same in every set.
  KeepSets drop_middle(const LayerView& view) const {
    const int n = view.sets[0].size(), recent = recent_[view.layer];
    if (n <= sinks_ + recent) return {};
    return in_every_set(view, with_tail(all_slots(sinks_), n - recent, n));  // [sinks + recent]
  }

  LayerBudget budget_;
  int sinks_;
  bool shift_, rolling_;
  std::vector<int> recent_;  // [layers]: tokens, determined at the end of a prompt
};

}  // namespace

/// Keeps the first tokens (attention sinks) and the budget - sinks most recent ones; all others are
/// evicted.  After each step the oldest token after the sinks is evicted (Xiao et al., 2023).
MethodInfo streamingllm() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "streamingllm",
      .summary = "keeps the first tokens (attention sinks) and the most recent ones",
      .paper = "Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023",
      .budget_unit = "tokens kept per KV head, sinks included; rolling=true: also while decoding",
      .deviations =
          "prefill attention is dense; a decode step attends before the oldest token is evicted; a "
          "later turn is prefilled before the eviction; the official demo evicts first; positions "
          "are kept by default; the demo shifts them (pos=shift)",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens kept per KV head"},
                     {"sinks", Kind::kInteger, "4", "tokens", "first tokens, always kept"},
                     {"pos", Kind::kChoice, "keep", "keep|shift",
                      "positions of kept tokens: the original ones, or their index in the cache "
                      "(layers=equal)"},
                     {"rolling", Kind::kFlag, "true", "", "evict while decoding too"},
                     layers_parameter()},
      .make = [](const Parameters& p) {
        LayerBudget budget = layer_budget("streamingllm", p);
        const bool shift = p.choice("pos") == "shift";
        if (shift && budget.rule.kind != LayerRule::Kind::kEqual) {
          throw input_error(
              "streamingllm: found pos=shift with unequal layers, expected layers=equal: the next "
              "position is the number of cached tokens, which must be the same in every layer");
        }
        return Policies{.eviction = std::make_unique<StreamingLlm>(std::move(budget),
                                                                   checked_sinks("streamingllm", p),
                                                                   shift, p.flag("rolling"))};
      }};
}

}  // namespace turnbench
