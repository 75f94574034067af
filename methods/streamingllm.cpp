#include <limits>

#include "common/error.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class StreamingLlm : public EvictionPolicy {
 public:
  StreamingLlm(Budget budget, int sinks, bool shift, bool rolling)
      : budget_(budget), sinks_(sinks), shift_(shift), rolling_(rolling) {}

  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<StreamingLlm>(*this);
  }
  bool shifts_positions() const override { return shift_; }

  KeepSets after_prefill(const LayerView& view) override {
    kept_ = budget_.tokens(view.sets[0].size());
    if (kept_ <= sinks_) {
      throw input_error(
          "streamingllm: found a budget of {} tokens of {}, expected more than the {} sinks", kept_,
          view.sets[0].size(), sinks_);
    }
    return drop_middle(view);
  }

  KeepSets after_decode(const LayerView& view) override {
    return rolling_ ? drop_middle(view) : KeepSets{};
  }

 private:
  /// The sinks and the most recent tokens, `kept_` in all.
  KeepSets drop_middle(const LayerView& view) const {
    const int n = view.sets[0].size();  // all sets are alike
    if (n <= kept_) return {};
    return {{view.sets.size(), with_tail(all_slots(sinks_), n - (kept_ - sinks_), n)}};
  }

  Budget budget_;
  int sinks_;
  int kept_ = std::numeric_limits<int>::max();  // everything, until a prompt ends
  bool shift_, rolling_;
};

}  // namespace

/// Attention sinks and a window of recent tokens; what lies between is lost.
MethodInfo streamingllm() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "streamingllm",
      .summary = "keeps the first tokens (attention sinks) and the most recent ones",
      .paper = "Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023",
      .counts = "tokens kept per KV head, sinks included; with rolling=true also while decoding",
      .deviates =
          "prefill attention is dense; a decode step attends before the oldest token leaves",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens kept per KV head"},
                     {"sinks", Kind::kInteger, "4", "tokens", "first tokens that never leave"},
                     {"pos", Kind::kChoice, "keep", "keep|shift",
                      "positions of kept tokens: their own, or their place in the cache"},
                     {"rolling", Kind::kFlag, "true", "", "the window moves on while decoding"}},
      .make = [](const Parameters& p) {
        Policies out;
        const Budget budget = p.budget("budget");
        if (!budget.is_ratio && budget.value <= p.integer("sinks")) {
          throw input_error(
              "streamingllm: found a budget of {} and {} sinks, expected a larger budget",
              budget.value, p.integer("sinks"));
        }
        out.eviction = std::make_unique<StreamingLlm>(
            budget, p.integer("sinks"), p.choice("pos") == "shift", p.flag("rolling"));
        return out;
      }};
}

}  // namespace turnbench
