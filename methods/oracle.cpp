#include <algorithm>

#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

class Oracle : public SelectionPolicy {
 public:
  Oracle(Budget budget, int sinks, double local_share, bool per_query_head)
      : budget_(budget),
        sinks_(sinks),
        local_share_(local_share),
        per_query_head_(per_query_head) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<Oracle>(*this);
  }

  Selection select(const LayerView& view) override {
    Selection out;
    const int lists = per_query_head_ ? view.shape.heads : static_cast<int>(view.sets.size());
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
    const int prompt = std::max(0, view.prompt_tokens - sinks_);
    const int budget =
        budget_.is_ratio ? budget_.tokens(prompt) : std::max(0, budget_.tokens(0) - sinks_);
    const int local = static_cast<int>(budget * local_share_), top = budget - local;
    const int begin = std::min(sinks_, n - 1), end = std::max(begin, n - 1 - local);
    if (end - begin <= top) return all_slots(n);
    const HeadScores& probabilities = view.stats.window_mass(1);
    std::vector<float> scores(static_cast<std::size_t>(end - begin), 0.0f);
    for (int h = first_head; h < first_head + heads; ++h) {
      // Softmax over the candidates alone, then summed over the group.
      const auto row =
          probabilities.head(h, n).subspan(static_cast<std::size_t>(begin), scores.size());
      double mass = 0;
      for (float p : row) mass += p;
      if (mass == 0) continue;
      for (std::size_t j = 0; j < row.size(); ++j) scores[j] += static_cast<float>(row[j] / mass);
    }
    std::vector<std::int32_t> out = all_slots(begin);
    for (std::int32_t j : top_k(scores, top)) out.push_back(begin + j);
    return with_tail(std::move(out), end, n);
  }

  Budget budget_;
  int sinks_;
  double local_share_;
  bool per_query_head_;
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
      .counts =
          "tokens read per KV head and step: a share counts the prompt without its sinks, a number "
          "counts the sinks too; the current token is free",
      .deviates =
          "the sinks and the half that goes to recent tokens come from PQCache's scripts, not "
          "from its paper; the current token is read before an old one leaves the local window",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens that are always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "part of the budget that goes to the most recent tokens", 0, 1},
                     {"gran", Kind::kChoice, "kv_head", "kv_head|query_head",
                      "what has a selection of its own"}},
      .make = [](const Parameters& p) {
        Policies out;
        out.selection =
            std::make_unique<Oracle>(p.budget("budget"), p.integer("sinks"), p.number("local"),
                                     p.choice("gran") == "query_head");
        return out;
      }};
}

}  // namespace turnbench
