#include <algorithm>
#include <numeric>

#include "methods/kept_sets.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class Oracle : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int sinks;             ///< tokens
    double local;          ///< share of the budget
    bool over_candidates;  ///< the heads' softmax is over these alone, not over all keys
    bool per_query_head;
  };
  explicit Oracle(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<Oracle>(*this);
  }

  void after_prefill(const LayerView& view) override {
    local_ = segments(view.prompt_tokens).local;
  }

  DeviceNeeds expected_needs(const PromptSize& size) const override {
    const auto [budget, local, chosen] = segments(size.prompt_tokens);
    const int lists = s_.per_query_head ? size.heads_per_set() : 1;
    return {.everything = size.tokens <= s_.sinks + budget,
            .pinned_tokens = s_.sinks + local + 1,
            .step_tokens = lists * chosen,
            .first = s_.sinks,
            .lists_per_set = lists};
  }

  std::vector<SlotRange> pinned(int /*layer*/, int tokens) const override {
    return sinks_and_window(s_.sinks, tokens - 1 - local_, tokens);
  }

  /// Attention of the step's query -> summed over the heads of a set -> top-k between the sinks and
  /// the local window.
  Selection select(const LayerView& view) override {
    const auto [budget, local, k] = segments(view.prompt_tokens);
    Selection out;
    for (const KeptSet& set : kept_sets(view, s_.per_query_head)) {
      const int n = set.tokens, current = n - 1;  // the current token is read in any case
      if (current <= s_.sinks + budget) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      const int begin = s_.sinks, end = current - local;        // of the candidates
      const HeadScores& attention = view.stats.window_mass(1);  // [query heads, n]
      const std::vector<float> scores =                         // [candidates]
          summed_over_heads(attention, set, begin, end);
      std::vector<std::int32_t> slots = all_slots(begin);
      for (std::int32_t j : top_k(scores, k)) slots.push_back(begin + j);
      out.slots.push_back(with_tail(std::move(slots), end, n));  // [sinks + k + local + 1]
    }
    return out;
  }

 private:
  struct Segments {
    int budget = 0, local = 0, chosen = 0;  ///< tokens
  };

  /// The prompt's length decides, not today's: segments are fixed when the turn's prefill ends.
  Segments segments(int prompt_tokens) const {
    const int prompt = std::max(0, prompt_tokens - s_.sinks);
    const int budget =
        s_.budget.is_ratio ? s_.budget.tokens(prompt) : std::max(0, s_.budget.tokens(0) - s_.sinks);
    // Each part is rounded down by itself, as in PQCache.
    return {budget, Budget{true, s_.local}.tokens(budget),
            Budget{true, 1 - s_.local}.tokens(budget)};
  }

  /// Probabilities of the candidates, slots [begin, end), summed over the query heads of a set.
  std::vector<float> summed_over_heads(const HeadScores& attention, const KeptSet& set, int begin,
                                       int end) const {
    std::vector<float> out(static_cast<std::size_t>(end - begin), 0.0f);
    for (int h = set.first_head; h < set.first_head + set.heads; ++h) {
      const std::span<const float> row =
          attention.head(h, set.tokens).subspan(static_cast<std::size_t>(begin), out.size());
      const double all = s_.over_candidates ? std::accumulate(row.begin(), row.end(), 0.0) : 1;
      if (all == 0) continue;
      for (std::size_t j = 0; j < row.size(); ++j) out[j] += static_cast<float>(row[j] / all);
    }
    return out;
  }

  Settings s_;
  int local_ = 0;  ///< tokens of the turn
};

}  // namespace

/// Exact top-k attention: the upper bound of methods that select tokens while decoding.  Segments
/// are PQCache's: sinks, the top-k of the middle, a local window.  sinks=0, local=0 is the pure
/// form.
MethodInfo oracle() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "oracle",
      .summary =
          "attends to the truly highest-scoring tokens of each step: an upper bound, not a system",
      .paper = "baseline of Zhang et al., PQCache: Product Quantization-based KVCache, 2024",
      .budget_unit =
          "tokens read per KV head and step: a share counts the prompt without its sinks, a number "
          "counts the sinks too; recent and best tokens are rounded down each; the current token "
          "is "
          "free",
      .deviations =
          "the sinks and the half that goes to recent tokens come from PQCache's scripts, not "
          "from its paper; norm=candidates is how PQCache's own search weighs the heads of a "
          "group; "
          "the current token is read before an old one leaves the local window; the scripts' "
          "oracle "
          "counts it among the recent ones and reads one token less at some lengths",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens that are always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "part of the budget that goes to the most recent tokens", 0, 1},
                     {"norm", Kind::kChoice, "all", "all|candidates",
                      "keys that a head's softmax is over, before heads of a group are summed"},
                     {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
                      "what has a selection of its own"}},
      .make = [](const Parameters& p) {
        Policies out;
        out.selection = std::make_unique<Oracle>(
            Oracle::Settings{.budget = p.budget("budget"),
                             .sinks = p.integer("sinks"),
                             .local = p.number("local"),
                             .over_candidates = p.choice("norm") == "candidates",
                             .per_query_head = p.choice("gran") == "query_head"});
        return out;
      }};
}

}  // namespace turnbench
