#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/kept_sets.h"
#include "methods/parts/rows_on_device.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class Oracle : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int sinks;             ///< tokens
    double local;          ///< share of the budget
    bool over_candidates;  ///< the softmax of a head is over the candidates only, not over all keys
    bool per_query_head;
  };
  explicit Oracle(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<Oracle>(*this);
  }

  void after_prefill(const LayerView& view) override {
    local_ = segments(view.prompt_tokens).local;
  }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const auto [budget, local, chosen] = segments(size.prompt_tokens);
    const int lists = s_.per_query_head ? size.heads_per_set() : 1;
    return {.everything = size.tokens <= s_.sinks + budget,
            .pinned_tokens = s_.sinks + local + 1,
            .step_tokens = lists * chosen,
            .first = s_.sinks,
            .lists_per_set = lists};
  }

  std::vector<SlotRange> pinned(int /*layer*/, int /*set*/, int tokens) const override {
    return sinks_and_window(s_.sinks, tokens - 1 - local_, tokens);
  }

  /// Attention of the step's query -> summed over the heads of a set -> top-k between the sinks and
  /// the local window.
  Selection select(const LayerView& view) override {
    const Segments parts = segments(view.prompt_tokens);
    const std::vector<KeptSet> sets = kept_sets(view, s_.per_query_head);
    std::vector<std::vector<std::int32_t>> best = best_candidates(view, parts, sets);
    Selection out;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const int n = sets[i].tokens;
      if (reads_all(parts, n)) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      std::vector<std::int32_t> slots = all_slots(s_.sinks);
      for (const std::int32_t j : best[i]) slots.push_back(s_.sinks + j);
      // [sinks + k + local + 1]
      out.slots.push_back(with_tail(std::move(slots), n - 1 - parts.local, n));
    }
    return out;
  }

 private:
  struct Segments {
    int budget = 0, local = 0, chosen = 0;  ///< tokens
  };

  /// The segments for a prompt length.  They do not depend on the current length: they are fixed at
  /// the end of the turn's prefill.
  Segments segments(int prompt_tokens) const {
    const int prompt = std::max(0, prompt_tokens - s_.sinks);
    const int budget =
        s_.budget.is_ratio ? s_.budget.tokens(prompt) : std::max(0, s_.budget.tokens(0) - s_.sinks);
    // Each part is rounded down separately, as in PQCache.
    return {budget, Budget{true, s_.local}.tokens(budget),
            Budget{true, 1 - s_.local}.tokens(budget)};
  }

  /// Whether all tokens of a set of `n` tokens are read; the current one always is.
  bool reads_all(const Segments& parts, int n) const { return n - 1 <= s_.sinks + parts.budget; }

  /// The best candidates of each set that has any, as indices from the first slot after the sinks.
  std::vector<std::vector<std::int32_t>> best_candidates(const LayerView& view,
                                                         const Segments& parts,
                                                         std::span<const KeptSet> sets) {
    const std::int64_t heads = view.heads_per_set();
    std::int64_t floats = 0;
    for (const KvHeadCache& set : view.sets) floats += heads * set.size();
    for (const KeptSet& set : sets) floats += set.tokens;
    float* memory = view.scratch->get(static_cast<std::size_t>(floats));
    std::vector<RowsOnDevice> keys;
    keys.reserve(view.sets.size());  // jobs refer to its elements
    std::vector<KeyScoreJob> scoring;
    std::vector<std::vector<std::int32_t>> seen(view.sets.size());
    const MatrixView q(view.queries.data, view.shape.heads, view.shape.head_dim);
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const KvHeadCache& set = view.sets[s];
      seen[s] = slots_in_window(view, set);
      scoring.push_back({&keys.emplace_back(view, set, 0, copies_).set(),
                         q.rows_at(static_cast<std::int64_t>(s) * heads, heads),
                         seen[s],
                         {memory, heads, set.size()}});
      memory += heads * set.size();
    }
    std::vector<ReduceHeadsJob> reducing;
    std::vector<TopKJob> choosing;
    std::vector<std::vector<std::int32_t>> out(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const KeptSet& set = sets[i];
      if (reads_all(parts, set.tokens)) continue;
      const std::int64_t count = set.tokens - 1 - parts.local - s_.sinks;
      const MatrixView<float> of_set =
          scoring[static_cast<std::size_t>(set.first_head / heads)].out;
      const MatrixView<float> scores = of_set.rows_at(set.first_head % heads, set.heads);
      const MatrixView<float> sums(memory, 1, set.tokens),
          chosen = sums.columns_at(s_.sinks, count);
      memory += set.tokens;
      if (s_.over_candidates) {
        reducing.push_back(
            {scores.columns_at(s_.sinks, count), HeadReduction::kSumOfSoftmax, chosen});
      } else {
        reducing.push_back({scores, HeadReduction::kSumOfSoftmax, sums});
      }
      choosing.push_back({{chosen.data, static_cast<std::size_t>(count)}, parts.chosen, &out[i]});
    }
    if (choosing.empty()) return out;
    view.backend->score_keys(view.scale, scoring);
    view.backend->reduce_heads(reducing);
    view.backend->top_k(choosing);
    return out;
  }

  Settings s_;
  int local_ = 0;                   ///< local window of the turn, in tokens
  std::shared_ptr<KvPool> copies_;  ///< for keys of offloaded layers
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
          "recent tokens and reads one token less at some lengths",
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
        check_room("oracle", p.budget("budget"), p.integer("sinks"),
                   fmt::format("{} sinks", p.integer("sinks")));
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
