#include "methods/selection/loopserve_decode.h"

#include <algorithm>

#include "common/error.h"
#include "methods/parts/kept_sets.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class LoopServeDecode : public Cloned<LoopServeDecode, SelectionPolicy> {
 public:
  struct Settings {
    Budget budget;
    int interval;  ///< n_d: tokens of the observation window, and steps between two selections
    int first;     ///< answer tokens before the first selection
    bool force_observed, per_query_head;
  };
  explicit LoopServeDecode(const Settings& s) : s_(s) {}

  SelectionTraits traits() const override { return {.window = s_.interval}; }

  /// Steps that read everything also return lists, as many as those that select.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    DeviceNeeds out = reading_everything(size.tokens);
    if (s_.per_query_head) out.lists_per_set = size.heads_per_set();
    return out;
  }

  void after_prefill(const LayerView& view) override {
    active_.resize(static_cast<std::size_t>(view.shape.layers));
    Lists& active = active_[view.layer];
    active.clear();
    if (s_.first == 0) active = choose(view);
  }

  /// Dense at first; then a selection every n_d tokens.  Each step adds its own token to the
  /// selection.
  Selection select(const LayerView& view) override {
    Lists& active = active_[view.layer];
    if (view.generated < s_.first) return {};
    if ((view.generated - s_.first) % s_.interval == 0 || has_moved(active, view)) {
      active = choose(view);
    } else {
      for (std::size_t i = 0; i < active.size(); ++i)
        active[i].push_back(cache_of(active, i, view).size() - 1);
    }
    return {active};
  }

 private:
  using Lists = std::vector<std::vector<std::int32_t>>;  // [sets or query heads][slots]; none: all

  static const KvHeadCache& cache_of(const Lists& lists, std::size_t i, const LayerView& view) {
    return view.sets[i * view.sets.size() / lists.size()];
  }

  /// Whether tokens were evicted since the last step, whose own token ends each list.  If so, the
  /// slots in the lists refer to other tokens.
  static bool has_moved(const Lists& lists, const LayerView& view) {
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (lists[i].back() + 2 != cache_of(lists, i, view).size()) return true;
    }
    return false;
  }

  Lists choose(const LayerView& view) const {
    const std::vector<KeptSet> sets = kept_sets(view, s_.per_query_head);
    const int budget = s_.budget.tokens(view.prompt_tokens);
    if (std::all_of(sets.begin(), sets.end(),
                    [&](const KeptSet& set) { return set.tokens <= budget; }))
      return {};
    Lists out;
    for (const KeptSet& set : sets) out.push_back(choose(view, set));
    return out;
  }

  /// Attention of the observed tokens' rows, summed -> summed over the heads of the set -> top-k of
  /// the tokens before the observed ones, plus the observed ones (Equation 7).
  std::vector<std::int32_t> choose(const LayerView& view, const KeptSet& set) const {
    const int n = set.tokens, budget = s_.budget.tokens(view.prompt_tokens);
    if (n <= budget) return all_slots(n);
    // The current token is always read.
    const int forced = s_.force_observed ? view.stats.window_rows(s_.interval) : 1;
    if (budget <= forced) {
      throw input_error(
          "loopserve-decode: found a budget of {} tokens of {}, expected more than the {} that are "
          "always read",
          budget, n, forced);
    }
    const int candidates = n - forced;
    // [query heads, n]: softmax(q k / sqrt(d)), summed over the last n_d rows.
    const HeadScores& attention = view.stats.window_mass(s_.interval);
    const std::vector<float> scores =  // [candidates]
        group_scores(attention, set.first_head, set.heads, candidates, GroupRule::kSum);
    return with_tail(top_k(scores, budget - forced), candidates, n);  // [budget]
  }

  Settings s_;
  std::vector<Lists> active_;  // [layers]: lists read since the last selection
};

}  // namespace

/// Progressive decoding: dense at first, then attention to a budget of tokens to which the last n_d
/// tokens attend most, re-selected every n_d tokens from the whole cache (LoopServe, section 5.3,
/// Algorithm 3).
MethodInfo loopserve_decode() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "loopserve-decode",
      .summary =
          "reads tokens that are selected repeatedly by the attention of the most recent "
          "answer tokens",
      .paper =
          "Li et al., LoopServe: An Adaptive Dual-phase LLM Inference Acceleration System for "
          "Multi-Turn Dialogues, 2025",
      .budget_unit =
          "tokens read per query head (per KV head with gran=kv_head) directly after a "
          "selection, the observed ones included; up to n_d - 1 more until the next selection; "
          "records count the tokens that at least one query head of a KV head reads",
      .deviations =
          "the complete cache is kept, because equation 7 selects from all of it; observed "
          "tokens are always read (force_obs=false: only the current one); steps before the "
          "16th token are dense, so short answers equal full attention (first=0 selects before "
          "the first step, by the prompt's last tokens, as the printed trigger does for n_d = "
          "16); gran=kv_head (one list per group, by its summed scores) is not in the paper; "
          "with a method that evicts while decoding, each step after an eviction selects again; "
          "probabilities below e^-87 count as 0, so their tokens are ties, which go to the lower "
          "position",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "tokens read per query head or KV head"},
                     {"n_d", Kind::kInteger, "16", "tokens",
                      "observation window and interval between selections", 1, 4096},
                     {"first", Kind::kInteger, "16", "tokens",
                      "answer tokens before the first selection"},
                     {"force_obs", Kind::kFlag, "true", "", "always read the observed tokens"},
                     {"gran", Kind::kChoice, "query_head", "query_head|kv_head",
                      "heads with separate selections"}},
      .make = [](const Parameters& p) {
        const Budget budget = p.budget("budget");
        const int forced = p.flag("force_obs") ? p.integer("n_d") : 1;
        if (!budget.is_ratio && budget.value <= forced) {
          throw input_error(
              "loopserve-decode: found a budget of {} tokens, of which {} are always read, "
              "expected a larger budget",
              budget.value, forced);
        }
        return Policies{.selection = std::make_unique<LoopServeDecode>(LoopServeDecode::Settings{
                            budget, p.integer("n_d"), p.integer("first"), p.flag("force_obs"),
                            p.choice("gran") == "query_head"})};
      }};
}

}  // namespace turnbench
