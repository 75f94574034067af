#include <cmath>
#include <limits>
#include <numeric>

#include "methods/block_pool.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

std::vector<double> softmax(std::vector<double> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - top);
  for (double& v : x) v /= sum;
  return x;
}

/// Square root of the Jensen-Shannon divergence, natural logarithm, 0 log 0 = 0.
double js_distance(const std::vector<double>& p, const std::vector<float>& q) {
  const auto term = [](double x, double m) { return x > 0 ? 0.5 * x * std::log(x / m) : 0; };
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double m = (p[i] + q[i]) / 2;
    sum += term(p[i], m) + term(q[i], m);
  }
  return std::sqrt(std::max(0.0, sum));
}

class FlexPrefill : public PrefillPolicy {
 public:
  struct Settings {
    double gamma, tau;
    int min_budget, max_budget, block;
    bool sparse_followup;
  };
  explicit FlexPrefill(const Settings& s) : s_(s) {}

  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<FlexPrefill>(*this);
  }

  std::vector<HeadPattern> plan(const LayerView& view) override {
    const int n = view.first_row + view.rows;
    if (n <= std::max(2 * s_.block, blocks_of(s_.min_budget) * s_.block) ||
        (view.first_row > 0 && !s_.sparse_followup)) {
      return {};
    }
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head(
        [&](int head) { out[static_cast<std::size_t>(head)] = pattern(view, head); });
    return out;
  }

 private:
  int blocks_of(int tokens) const { return (tokens + s_.block - 1) / s_.block; }

  HeadPattern pattern(const LayerView& view, int head) const {
    const KvHeadCache& set = view.sets[static_cast<std::size_t>(head / view.heads_per_set())];
    const BlockGrid grid(s_.block, view.first_row);
    const std::int32_t n = view.first_row + view.rows;
    const int blocks = grid.of(n - 1) + 1, first = grid.of(view.first_row);
    const int least = blocks_of(s_.min_budget);
    const int most = s_.max_budget == 0 ? blocks : std::min(blocks, blocks_of(s_.max_budget));
    const auto size = static_cast<std::size_t>(blocks);
    const BlockPool keys = pool_keys(set, grid, n);

    const int rows = std::min(s_.block, view.rows);
    LineMass mass = view.stats.line_mass(head, rows);
    for (float& x : mass.vertical) x /= static_cast<float>(rows);
    for (float& x : mass.slash) x /= static_cast<float>(rows);
    const auto budget = [&](const std::vector<float>& weights) {
      return std::min(std::max(cover_count(weights, s_.gamma) / s_.block + 1, least), most);
    };
    int columns = budget(mass.vertical), diagonals = budget(mass.slash);
    std::vector<float> vertical(size), slash(size);
    for (std::size_t j = 0; j < mass.vertical.size(); ++j)
      vertical[static_cast<std::size_t>(grid.of(set.position(static_cast<int>(j))))] +=
          mass.vertical[j];
    // Diagonals are pooled from the farthest offset on, as the official code does: where n is not a
    // multiple of the block, the pools lie askew to the diagonals of blocks that they choose.
    for (std::int32_t o = 0; o < n; ++o)
      slash[static_cast<std::size_t>(blocks - 1 - grid.of(n - 1 - o))] +=
          mass.slash[static_cast<std::size_t>(o)];

    const bool query_aware = js_distance(estimate(view, head, rows, keys), vertical) < s_.tau;
    if (query_aware) columns = diagonals = least;
    vertical[0] = slash[0] = std::numeric_limits<float>::infinity();
    std::vector<char> chosen((size - static_cast<std::size_t>(first)) * size, 0);
    const auto cell = [&](int row, int column) -> char& {
      return chosen[static_cast<std::size_t>(row - first) * size +
                    static_cast<std::size_t>(column)];
    };
    for (int c : top_k(vertical, columns)) {
      for (int r = std::max(c, first); r < blocks; ++r) cell(r, c) = 1;
    }
    for (int o : top_k(slash, diagonals)) {
      for (int r = std::max(o, first); r < blocks; ++r) cell(r, r - o) = 1;
    }
    if (query_aware) add_heaviest_blocks(view, head, keys, first, chosen);

    HeadPattern p;
    p.kind = HeadPattern::Kind::kBlocks;
    p.block_size = p.block_rows = s_.block;
    for (int r = first; r < blocks; ++r) {
      std::vector<std::int32_t>& list = p.blocks.emplace_back();
      for (int c = 0; c <= r; ++c) {
        if (cell(r, c)) list.push_back(c);
      }
    }
    return p;
  }

  /// The attention of the last rows' mean query over the blocks' mean keys.
  std::vector<double> estimate(const LayerView& view, int head, int rows,
                               const BlockPool& keys) const {
    std::vector<float> mean(static_cast<std::size_t>(keys.head_dim));
    for (int r = view.rows - rows; r < view.rows; ++r) {
      const std::span<const float> q = view.stats.query(head, r);
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += q[d] / static_cast<float>(rows);
    }
    std::vector<double> logits;
    for (int b = 0; b < keys.blocks(); ++b) logits.push_back(logit(keys, b, mean.data()));
    return softmax(logits);
  }

  /// Blocks without keys (all evicted) weigh nothing.
  static double logit(const BlockPool& keys, int block, const float* q) {
    const int count = keys.count[static_cast<std::size_t>(block)];
    return count == 0 ? -std::numeric_limits<double>::infinity()
                      : keys.dot(keys.sum, block, q) / count / std::sqrt(keys.head_dim);
  }

  /// Adds the cells of the blockwise attention map, heaviest first, that hold gamma of its mass.
  void add_heaviest_blocks(const LayerView& view, int head, const BlockPool& keys, int first,
                           std::vector<char>& chosen) const {
    const BlockPool queries = pool_queries(view, head, s_.block);
    const auto size = static_cast<std::size_t>(keys.blocks());
    std::vector<double> map(chosen.size(), 0);
    for (int r = 0; r < queries.blocks(); ++r) {
      std::vector<float> q(queries.at(queries.sum, r), queries.at(queries.sum, r + 1));
      for (float& x : q) x /= static_cast<float>(queries.count[static_cast<std::size_t>(r)]);
      std::vector<double> logits;
      for (int c = 0; c <= first + r; ++c) logits.push_back(logit(keys, c, q.data()));
      const std::vector<double> row = softmax(logits);
      std::copy(row.begin(), row.end(), map.begin() + static_cast<std::ptrdiff_t>(r * size));
    }
    std::vector<std::size_t> order(map.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return map[a] > map[b]; });
    double sum = 0;
    for (std::size_t i : order) {
      if (map[i] == 0 || (sum += map[i]) > s_.gamma * queries.blocks()) break;
      chosen[i] = 1;
    }
  }

  Settings s_;
};

}  // namespace

/// Pattern and budget of each head chosen online on the last rows: vertical and slash blocks that
/// cover a share of the attention, or, where the blockwise estimate is close to the truth, the
/// heaviest blocks of that estimate (FlexPrefill, Algorithms 1 to 4).
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
          "0 log 0 is 0 where the official code yields NaN; a block of budget stands for as many "
          "lines as it is wide, where the official code divides by 128 at any width; later turns "
          "on a kept cache estimate "
          "on their own last rows, with row blocks and key blocks aligned to the turn's first row "
          "(followup=dense computes them densely)",
      .parameters = {{"gamma", Kind::kNumber, "0.9", "share",
                      "attention to cover; 1.001 takes every block", 0, 1.1},
                     {"tau", Kind::kNumber, "0.1", "distance",
                      "block estimates closer than this to the truth are used", 0, 1},
                     {"min_budget", Kind::kInteger, "512", "tokens",
                      "least budget of lines; up to it the prefill is dense", 1},
                     {"max_budget", Kind::kInteger, "0", "tokens", "largest budget; 0 = none"},
                     {"block", Kind::kChoice, "128", "64|128", "rows and keys of a block"},
                     {"followup", Kind::kChoice, "sparse", "sparse|dense",
                      "later turns' rows on a kept cache"}},
      .make = [](const Parameters& p) {
        Policies out;
        out.prefill = std::make_unique<FlexPrefill>(FlexPrefill::Settings{
            p.number("gamma"), p.number("tau"), p.integer("min_budget"), p.integer("max_budget"),
            std::stoi(p.choice("block")), p.choice("followup") == "sparse"});
        return out;
      }};
}

}  // namespace turnbench
