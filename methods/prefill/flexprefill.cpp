#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "methods/method.h"
#include "methods/parts/block_pool.h"
#include "methods/parts/chosen_blocks.h"
#include "methods/parts/scores.h"
#include "methods/parts/softmax.h"

namespace turnbench {
namespace {

/// Square root of the Jensen-Shannon divergence of two distributions, natural logarithm,
/// 0 log 0 = 0.
double js_distance(const std::vector<double>& p, const std::vector<float>& q) {
  const auto term = [](double x, double m) { return x > 0 ? 0.5 * x * std::log(x / m) : 0; };
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double m = (p[i] + q[i]) / 2;
    sum += term(p[i], m) + term(q[i], m);
  }
  return std::sqrt(std::max(0.0, sum));
}

class FlexPrefill : public Cloned<FlexPrefill, PrefillPolicy> {
 public:
  struct Settings {
    double gamma, tau;
    int min_budget, max_budget;  ///< tokens; max_budget 0: no maximum
    int block;                   ///< rows and keys
    bool sparse_followup;
  };
  explicit FlexPrefill(const Settings& s) : s_(s) {}

  std::vector<HeadPattern> plan(const LayerView& view) override {
    const int n = view.first_position + view.rows;
    if (n <= std::max(2 * s_.block, blocks_of(s_.min_budget) * s_.block) ||
        (view.first_position > 0 && !s_.sparse_followup)) {
      return {};
    }
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) { out[head] = pattern(view, head); });
    return out;
  }

 private:
  int blocks_of(int tokens) const { return (tokens + s_.block - 1) / s_.block; }

  /// Attention of the last rows along columns and diagonals -> budgets that cover a share gamma of
  /// it -> pooled in blocks -> top-k columns and diagonals of blocks.  A head whose blockwise
  /// estimate is close to its actual attention is query-aware: the heaviest blocks of the estimate
  /// are added.
  HeadPattern pattern(const LayerView& view, int head) const {
    const KvHeadCache& set = cache_of_head(view, head);
    const BlockGrid grid(s_.block, view.first_position);
    const std::int32_t n = view.first_position + view.rows;
    const int blocks = grid.block_of(n - 1) + 1;           // of keys
    const int first = grid.block_of(view.first_position);  // the first row block on this grid
    const int rows = std::min(s_.block, view.rows);

    const LineMass attention = mean_over_rows(view.stats.line_mass(head, rows), rows);
    int columns = budget(attention.vertical, blocks),  // blocks
        diagonals = budget(attention.slash, blocks);
    std::vector<float> vertical = pool_columns(attention.vertical, set, grid, blocks);  // [blocks]
    std::vector<float> slash = pool_diagonals(attention.slash, grid, blocks);           // [blocks]

    const BlockPool keys = pool_keys(*view.backend, set, grid, n);           // [blocks]
    const std::vector<double> estimated = estimate(view, head, rows, keys);  // [blocks]
    const bool query_aware = js_distance(estimated, vertical) < s_.tau;
    if (query_aware) columns = diagonals = blocks_of(s_.min_budget);

    ChosenBlocks chosen(first, blocks);
    for (int c : top_k_with_first(std::move(vertical), 1, columns)) chosen.add_column(c);
    for (int o : top_k_with_first(std::move(slash), 1, diagonals)) chosen.add_diagonal(o);
    if (query_aware) add_heaviest_blocks(view, head, keys, first, chosen);

    return {.kind = HeadPattern::Kind::kBlocks,
            .block_size = s_.block,
            .block_rows = s_.block,
            .blocks = chosen.lists()};
  }

  static LineMass mean_over_rows(LineMass mass, int rows) {
    for (float& x : mass.vertical) x /= static_cast<float>(rows);
    for (float& x : mass.slash) x /= static_cast<float>(rows);
    return mass;
  }

  /// The number of blocks equivalent to the lines that cover a share gamma of the mass, within the
  /// limits.
  int budget(const std::vector<float>& lines, int blocks) const {
    const int least = blocks_of(s_.min_budget);
    const int most = s_.max_budget == 0 ? blocks : std::min(blocks, blocks_of(s_.max_budget));
    return std::min(std::max(cover_count(lines, s_.gamma) / s_.block + 1, least), most);
  }

  /// Sums of the columns of each block: [slots] -> [blocks].
  static std::vector<float> pool_columns(const std::vector<float>& vertical, const KvHeadCache& set,
                                         const BlockGrid& grid, int blocks) {
    std::vector<float> out(static_cast<std::size_t>(blocks));
    for (std::size_t j = 0; j < vertical.size(); ++j)
      out[grid.block_of(set.position(static_cast<int>(j)))] += vertical[j];
    return out;
  }

  /// Sums of the diagonals of each block: [offsets] -> [blocks].  They are pooled from the farthest
  /// offset on, as in the official implementation: if n is not a multiple of the block size, the
  /// pools are not aligned with the block diagonals that they select.
  static std::vector<float> pool_diagonals(const std::vector<float>& slash, const BlockGrid& grid,
                                           int blocks) {
    const auto n = static_cast<std::int32_t>(slash.size());
    std::vector<float> out(static_cast<std::size_t>(blocks));
    for (std::int32_t o = 0; o < n; ++o) out[blocks - 1 - grid.block_of(n - 1 - o)] += slash[o];
    return out;
  }

  /// Attention of the last rows' mean query over the mean keys of the blocks: [blocks].
  std::vector<double> estimate(const LayerView& view, int head, int rows,
                               const BlockPool& keys) const {
    std::vector<float> mean(static_cast<std::size_t>(keys.head_dim()));
    const std::vector<float> queries = view.stats.queries(head, view.rows - rows, rows);
    for (std::size_t i = 0; i < queries.size(); ++i)
      mean[i % mean.size()] += queries[i] / static_cast<float>(rows);
    return attention_of(mean, keys, keys.blocks());
  }

  /// softmax(q mean key / sqrt(d)) over the first `blocks` blocks.  Blocks without keys (all
  /// evicted) have weight 0.
  static std::vector<double> attention_of(std::span<const float> query, const BlockPool& keys,
                                          int blocks) {
    std::vector<double> logits;
    for (int b = 0; b < blocks; ++b) {
      const int count = keys.count(b);
      logits.push_back(count == 0 ? -std::numeric_limits<double>::infinity()
                                  : dot(query, keys.sum(b)) / count / std::sqrt(keys.head_dim()));
    }
    return softmax(logits);
  }

  /// Adds cells of the blockwise attention map, heaviest first, until they contain a share gamma of
  /// its mass.
  void add_heaviest_blocks(const LayerView& view, int head, const BlockPool& keys, int first,
                           ChosenBlocks& chosen) const {
    const BlockPool queries = pool_queries(view, head, s_.block);  // [row blocks]
    const auto blocks = static_cast<std::size_t>(keys.blocks());
    std::vector<double> map;  // [row blocks][key blocks]: each row sums to 1
    for (int r = 0; r < queries.blocks(); ++r) {
      const std::span<const float> sum = queries.sum(r);
      std::vector<float> mean(sum.begin(), sum.end());
      for (float& x : mean) x /= static_cast<float>(queries.count(r));
      const std::vector<double> row = attention_of(mean, keys, first + r + 1);
      map.insert(map.end(), row.begin(), row.end());
      map.resize((static_cast<std::size_t>(r) + 1) * blocks, 0);
    }
    std::vector<std::size_t> order(map.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return map[a] > map[b]; });
    double sum = 0;
    for (std::size_t i : order) {
      if (map[i] == 0 || (sum += map[i]) > s_.gamma * queries.blocks()) break;
      chosen.add(first + static_cast<int>(i / blocks), static_cast<int>(i % blocks));
    }
  }

  Settings s_;
};

}  // namespace

/// The last rows determine pattern and budget of each head: vertical and slash blocks that cover a
/// share of the attention or, if a blockwise estimate is close to the actual attention, the
/// heaviest blocks of this estimate (FlexPrefill, Algorithms 1 to 4).
MethodInfo flexprefill() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "flexprefill",
      .summary = "sparse prefill on blocks that cover a share of each head's attention",
      .paper =
          "Lai et al., FlexPrefill: A Context-Aware Sparse Attention Mechanism for Efficient "
          "Long-Sequence Inference, 2025",
      .budget_unit =
          "no token budget: gamma is the share of attention to cover; every token is kept",
      .deviations =
          "0 log 0 is 0; the official code yields NaN; a block of the budget is equivalent to as "
          "many lines as its width; the official code divides by 128 for any width; later turns on "
          "a kept cache use their own last rows for estimates, and their row and key blocks are "
          "aligned to the turn's first row (followup=dense computes them densely)",
      .parameters = {{"gamma", Kind::kNumber, "0.9", "share",
                      "attention to cover; 1.001: every block", 0, 1.1},
                     {"tau", Kind::kNumber, "0.1", "distance",
                      "a head uses block estimates if their Jensen-Shannon distance to the exact "
                      "ones is below this",
                      0, 1},
                     {"min_budget", Kind::kInteger, "512", "tokens",
                      "minimum budget of lines; prompts up to this length are dense", 1},
                     {"max_budget", Kind::kInteger, "0", "tokens", "maximum budget; 0: none"},
                     {"block", Kind::kChoice, "128", "64|128", "rows and keys of a block"},
                     {"followup", Kind::kChoice, "sparse", "sparse|dense",
                      "prefill of later turns on a kept cache"}},
      .make = [](const Parameters& p) {
        return Policies{.prefill = std::make_unique<FlexPrefill>(FlexPrefill::Settings{
                            p.number("gamma"), p.number("tau"), p.integer("min_budget"),
                            p.integer("max_budget"), std::stoi(p.choice("block")),
                            p.choice("followup") == "sparse"})};
      }};
}

}  // namespace turnbench
