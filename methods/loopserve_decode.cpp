#include "common/error.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class LoopServeDecode : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int interval, first;
    bool force_observed;
  };
  explicit LoopServeDecode(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<LoopServeDecode>(*this);
  }
  int window() const override { return s_.interval; }

  void after_prefill(const LayerView& view) override {
    active_.resize(static_cast<std::size_t>(view.shape.layers));
    active_[static_cast<std::size_t>(view.layer)].clear();
  }

  Selection select(const LayerView& view) override {
    auto& active = active_[static_cast<std::size_t>(view.layer)];
    if (view.generated < s_.first) return {};
    if ((view.generated - s_.first) % s_.interval == 0) {
      active.clear();
      for (std::size_t i = 0; i < view.sets.size(); ++i) active.push_back(choose(view, i));
    } else {
      for (std::size_t i = 0; i < active.size(); ++i) active[i].push_back(view.sets[i].size() - 1);
    }
    return {active};
  }

 private:
  /// The observed tokens and the ones that they attend to most.
  std::vector<std::int32_t> choose(const LayerView& view, std::size_t i) const {
    const int n = view.sets[i].size(), budget = s_.budget.tokens(n);
    if (n <= budget) return all_slots(n);
    const int observed = s_.force_observed ? view.stats.window_rows(s_.interval) : 0;
    if (budget <= observed) {
      throw input_error(
          "loopserve-decode: found a budget of {} tokens of {}, expected more than n_d = {}",
          budget, n, s_.interval);
    }
    const int heads = view.heads_per_set();
    const std::vector<float> scores =
        group_scores(view.stats.window_mass(s_.interval), static_cast<int>(i) * heads, heads,
                     n - observed, GroupRule::kSum);
    return with_tail(top_k(scores, budget - observed), n - observed, n);
  }

  Settings s_;
  std::vector<std::vector<std::vector<std::int32_t>>> active_;  // [layer][set]
};

}  // namespace

/// Progressive decoding: dense at first, then attention to a budget of tokens that the last n_d
/// tokens attend to, chosen anew every n_d tokens from the whole cache (LoopServe, section 5.3,
/// Algorithm 3).
MethodInfo loopserve_decode() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "loopserve-decode",
      .summary = "decodes on tokens chosen again and again by the most recent answer tokens",
      .paper =
          "Li et al., LoopServe: An Adaptive Dual-phase LLM Inference Acceleration System for "
          "Multi-Turn Dialogues, 2025",
      .counts =
          "tokens read per KV head right after a selection, the observed ones included; up to n_d "
          "- 1 more until the next",
      .deviates =
          "the complete cache stays resident, as Equation 7 selects from all of it; observed "
          "tokens are always read (force_obs); steps before the 16th token are dense, so short "
          "answers equal full attention",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens read per KV head"},
                     {"n_d", Kind::kInteger, "16", "tokens",
                      "observation window and interval between selections", 1, 4096},
                     {"first", Kind::kInteger, "16", "tokens",
                      "answer tokens before the first selection", 1},
                     {"force_obs", Kind::kFlag, "true", "", "the observed tokens are always read"}},
      .make = [](const Parameters& p) {
        const Budget budget = p.budget("budget");
        if (!budget.is_ratio && budget.value <= p.integer("n_d")) {
          throw input_error(
              "loopserve-decode: found a budget of {} and n_d = {}, expected a larger budget",
              budget.value, p.integer("n_d"));
        }
        Policies out;
        out.selection = std::make_unique<LoopServeDecode>(LoopServeDecode::Settings{
            budget, p.integer("n_d"), p.integer("first"), p.flag("force_obs")});
        return out;
      }};
}

}  // namespace turnbench
