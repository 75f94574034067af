#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/error.h"
#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/layer_rows.h"
#include "methods/parts/softmax.h"

namespace turnbench {
namespace {

/// The first tokens (sinks) and then partitions of `lag` tokens.
struct Partitions {
  int sinks = 0, lag = 0;
};

/// Scores each token of a partition by its keys and values relative to those of the next partition.
class LagScorer : public EvictionScorer {
 public:
  explicit LagScorer(Partitions partitions) : p_(partitions) {}

  /// The rank of a token among those of its partition, as a share, so that all partitions keep
  /// equally many.  Higher scores have the last whole partition and the rest after it, ascending,
  /// and then the sinks: they are kept first.
  std::vector<float> scores(const LayerView& view, const KeptSet& set,
                            int candidates) const override {
    std::vector<float> out(static_cast<std::size_t>(candidates), kSinkScore);
    const int partitions = (set.tokens - p_.sinks) / p_.lag;
    if (set.tokens < p_.sinks + 2 * p_.lag) {  // only recency counts
      const int others = set.tokens - p_.sinks;
      for (int i = p_.sinks; i < candidates; ++i)
        out[i] = static_cast<float>(i - p_.sinks) / static_cast<float>(others);
      return out;
    }
    for (int i = p_.sinks + (partitions - 1) * p_.lag; i < candidates; ++i)
      out[i] = 1 + static_cast<float>(i) / static_cast<float>(set.tokens);
    for (int p = 0; p + 1 < partitions; ++p) {
      const int first = p_.sinks + p * p_.lag;
      std::vector<double> sums(static_cast<std::size_t>(p_.lag), 0);
      for (const KvHeadCache* cache : caches_of(view, set)) {
        for (const KvRow row : {KvRow::kKey, KvRow::kValue})
          add_scores(RowsOnHost(view, *cache, row, first, first + 2 * p_.lag), sums);
      }
      std::vector<int> order = all_slots(p_.lag);  // from the lowest score to the highest
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sums[a] < sums[b]; });
      for (int rank = 0; rank < p_.lag; ++rank) {
        const int slot = first + order[rank];
        if (slot < candidates) out[slot] = static_cast<float>(rank) / static_cast<float>(p_.lag);
      }
    }
    return out;
  }

 private:
  static constexpr float kSinkScore = 2;

  /// Adds softmax(std of (x - min) / (max - min) over the channels) of the first half of `rows`;
  /// min and max of each channel are those of the second half.
  void add_scores(const RowsOnHost& rows, std::vector<double>& sums) const {
    const auto width = static_cast<std::size_t>(rows.width());
    std::vector<double> low(width, INFINITY), high(width, -INFINITY);
    for (int i = p_.lag; i < 2 * p_.lag; ++i) {
      for (std::size_t d = 0; d < width; ++d) {
        low[d] = std::min<double>(low[d], rows.row(i)[d]);
        high[d] = std::max<double>(high[d], rows.row(i)[d]);
      }
    }
    std::vector<double> deviations;
    for (int i = 0; i < p_.lag; ++i) {
      double sum = 0, squares = 0;
      for (std::size_t d = 0; d < width; ++d) {
        const double range = high[d] - low[d];
        const double x = range > 0 ? (rows.row(i)[d] - low[d]) / range : 0;
        sum += x;
        squares += x * x;
      }
      const auto n = static_cast<double>(width);
      deviations.push_back(std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1))));
    }
    const std::vector<double> shares = softmax(std::move(deviations));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += shares[i];
  }

  Partitions p_;
};

Partitions partitions_of(const Parameters& p) {
  return {p.has("sinks") ? p.integer("sinks") : 16, p.has("lag") ? p.integer("lag") : 128};
}

std::shared_ptr<const EvictionScorer> lagkv_scorer(const Parameters& p) {
  return std::make_shared<LagScorer>(partitions_of(p));
}

}  // namespace

/// Keeps the first tokens, the last ones, and in each partition of the tokens between them the same
/// share: keys and values relative to minimum and maximum of the next partition -> standard
/// deviation over the channels -> softmax over the partition -> top-k (Liang et al., 2025,
/// section 3).
MethodInfo lagkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "lagkv",
      .summary = "keeps tokens whose keys and values differ from those of the tokens after them",
      .paper =
          "Liang et al., LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are "
          "Important, 2025",
      .budget_unit =
          "prompt tokens kept per KV head, sinks and the last tokens included; generated tokens "
          "are not counted",
      .deviations =
          "evicts once, at the end of a prompt (the paper also while decoding, when a partition is "
          "complete); the budget is one of the whole prompt, as in kvpress, instead of a ratio for "
          "each partition; of partitions with equally many left to keep, the earlier ones keep one "
          "more; ranks of equal scores go to the later token; a budget with less room than the "
          "sinks and all last tokens (up to two partitions) keeps sinks and the newest ones",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per set"},
                     {"sinks", Kind::kInteger, "16", "tokens", "first tokens, always kept", 0,
                      4096},
                     {"lag", Kind::kInteger, "128", "tokens", "tokens of a partition", 2, 4096},
                     layers_parameter()},
      .scorer = lagkv_scorer,
      .make = [](const Parameters& p) {
        const Partitions parts = partitions_of(p);
        WindowSettings window{.budget = layer_budget("lagkv", p), .sinks = parts.sinks};
        check_room("lagkv", window.budget.mean, parts.sinks + parts.lag - 1,
                   fmt::format("{} sinks and a last partition of {}", parts.sinks, parts.lag));
        return Policies{.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                            .window = window, .scorer = lagkv_scorer(p)})};
      }};
}

}  // namespace turnbench
