#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/scores.h"
#include "methods/parts/top_k_selection.h"

namespace turnbench {
namespace {

class Oracle : public Cloned<Oracle, SegmentSelection> {
 public:
  struct Settings {
    Budget budget;
    int sinks;             ///< tokens
    double local;          ///< share of the budget
    bool over_candidates;  ///< the softmax of a head is over the candidates only, not over all keys
    bool per_query_head;
  };
  explicit Oracle(const Settings& s) : s_(s) {}

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const TokenSegments parts = segments(size.prompt_tokens);
    const int lists = s_.per_query_head ? size.heads_per_set() : 1;
    return {.everything = size.tokens <= s_.sinks + budget(size.prompt_tokens),
            .pinned_tokens = s_.sinks + parts.local + 1,
            .step_tokens = lists * parts.chosen,
            .first = s_.sinks,
            .lists_per_set = lists};
  }

 protected:
  TokenSegments segments(int prompt_tokens) const override {
    // Each part is rounded down separately, as in PQCache.
    const int tokens = budget(prompt_tokens);
    return {s_.sinks, Budget{true, s_.local}.tokens(tokens),
            Budget{true, 1 - s_.local}.tokens(tokens)};
  }
  Ranking ranking(const LayerView&) const override {
    return {.reduction = HeadReduction::kSumOfSoftmax, .over_candidates = s_.over_candidates};
  }

  /// A set of no more tokens than the budget, the sinks and the current token is read as a whole.
  std::vector<Candidates> begin_step(const LayerView& view) override {
    seen_.assign(view.sets.size(), {});
    std::vector<Candidates> out = segment_lists(view, s_.per_query_head);
    for (Candidates& list : out) {
      if (view.sets[list.set].size() - 1 <= s_.sinks + budget(view.prompt_tokens)) list.count = 0;
    }
    return out;
  }
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    const KvHeadCache& keys = view.sets[set];
    seen_[set] = slots_in_window(view, keys);
    jobs.keys.push_back({&jobs.rows.emplace_back(view, keys, 0, copies_).set(),
                         view.step_queries(set), seen_[set], scores});
  }

 private:
  /// Tokens of the local window and the best candidates together.
  int budget(int prompt_tokens) const {
    return s_.budget.is_ratio ? s_.budget.tokens(std::max(0, prompt_tokens - s_.sinks))
                              : std::max(0, s_.budget.tokens(0) - s_.sinks);
  }

  Settings s_;
  std::vector<std::vector<std::int32_t>> seen_;  ///< [sets]: slots inside the sliding window
  std::shared_ptr<KvPool> copies_;               ///< for keys of offloaded layers
};

}  // namespace

/// Exact top-k attention: a reference for methods that select tokens while decoding, but not an
/// upper bound of their scores.  The segments are those of PQCache: sinks, the top-k of the middle,
/// a local window.  sinks=0, local=0 is pure top-k.
MethodInfo oracle() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "oracle",
      .summary =
          "exact top-k attention: reference for methods that select tokens; not an upper bound of "
          "the score",
      .paper = "baseline of Zhang et al., PQCache: Product Quantization-based KVCache, 2024",
      .budget_unit =
          "tokens read per KV head and step: a ratio refers to the prompt without its sinks, a "
          "number includes the sinks; the numbers of recent and of best tokens are rounded down; "
          "the current token is not counted",
      .deviations =
          "sinks and local are those of PQCache's scripts, not of its paper; norm=candidates "
          "weighs the heads of a group as PQCache's own search does; a step reads the current "
          "token before the local window moves; the oracle of the scripts counts it among the "
          "recent tokens and reads one token less at some lengths; probabilities below e^-87 count "
          "as 0, so their tokens are ties, which go to the lower position",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens, always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "share of the budget for the most recent tokens", 0, 1},
                     {"norm", Kind::kChoice, "all", "all|candidates",
                      "keys over which the softmax of a head is computed, before the heads of a "
                      "group are summed"},
                     {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
                      "heads with separate selections"}},
      .make = [](const Parameters& p) {
        return Policies{.selection = std::make_unique<Oracle>(
                            Oracle::Settings{.budget = p.budget("budget"),
                                             .sinks = checked_sinks("oracle", p),
                                             .local = p.number("local"),
                                             .over_candidates = p.choice("norm") == "candidates",
                                             .per_query_head = p.choice("gran") == "query_head"})};
      }};
}

}  // namespace turnbench
