#include <algorithm>
#include <numeric>

#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class Oracle : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int sinks;
    double local;          ///< share of the budget
    bool over_candidates;  ///< softmax over them alone, not over all keys
    bool per_query_head;
  };
  explicit Oracle(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<Oracle>(*this);
  }

  Selection select(const LayerView& view) override {
    Selection out;
    const int lists = s_.per_query_head ? view.shape.heads : static_cast<int>(view.sets.size());
    const int heads = view.shape.heads / lists;
    for (int i = 0; i < lists; ++i) {
      const int n = view.sets[static_cast<std::size_t>(i) * view.sets.size() /
                              static_cast<std::size_t>(lists)]
                        .size();
      out.slots.push_back(read(view, n, i * heads, heads));
    }
    return out;
  }

 private:
  /// Sinks, the best of the middle, the local window and the current token (slot n - 1).
  std::vector<std::int32_t> read(const LayerView& view, int n, int first_head, int heads) const {
    // Segments are fixed when the turn's prefill ends: its length decides, not today's.
    const int prompt = std::max(0, view.prompt_tokens - s_.sinks);
    const int budget =
        s_.budget.is_ratio ? s_.budget.tokens(prompt) : std::max(0, s_.budget.tokens(0) - s_.sinks);
    // Either part is rounded down by itself, as in PQCache.
    const int local = Budget{true, s_.local}.tokens(budget),
              top = Budget{true, 1 - s_.local}.tokens(budget);
    const int begin = std::min(s_.sinks, n - 1), end = std::max(begin, n - 1 - local);
    if (n - 1 <= s_.sinks + budget) return all_slots(n);
    const HeadScores& probabilities = view.stats.window_mass(1);
    std::vector<float> scores(static_cast<std::size_t>(end - begin), 0.0f);
    for (int h = first_head; h < first_head + heads; ++h) {
      const auto row =
          probabilities.head(h, n).subspan(static_cast<std::size_t>(begin), scores.size());
      const double mass = s_.over_candidates ? std::accumulate(row.begin(), row.end(), 0.0) : 1;
      if (mass == 0) continue;
      for (std::size_t j = 0; j < row.size(); ++j) scores[j] += static_cast<float>(row[j] / mass);
    }
    std::vector<std::int32_t> out = all_slots(begin);
    for (std::int32_t j : top_k(scores, top)) out.push_back(begin + j);
    return with_tail(std::move(out), end, n);
  }

  Settings s_;
};

}  // namespace

/// Exact top-k attention: the upper bound of methods that select tokens while decoding.  Segments
/// as in PQCache (sinks, local window, top-k of the middle); sinks=0, local=0 is the pure form.
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
          "the current token is read before an old one leaves the local window",
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
