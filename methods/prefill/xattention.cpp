#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <Eigen/Core>

#include "methods/method.h"
#include "methods/parts/block_pool.h"
#include "methods/parts/chosen_blocks.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// Vectors of one head in groups of `stride` consecutive positions: [groups, stride * head_dim].
/// Missing vectors are 0.
struct Groups {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> vectors;
  std::vector<bool> is_empty;  // [groups]

  Groups(std::int64_t groups, int stride, int head_dim)
      : vectors(decltype(vectors)::Zero(groups, stride * head_dim)),
        is_empty(static_cast<std::size_t>(groups), true) {}
  void set(int group, int place, const float* vector, int head_dim) {
    std::copy_n(vector, head_dim, vectors.row(group).data() + place * head_dim);
    is_empty[group] = false;
  }
};

class XAttention : public Cloned<XAttention, PrefillPolicy> {
 public:
  struct Settings {
    double gamma;
    int stride;  ///< positions of a group
    int block;   ///< rows and keys, a multiple of the stride
    bool sparse_followup;
  };
  explicit XAttention(const Settings& s) : s_(s) {}

  std::vector<HeadPattern> plan(const LayerView& view) override {
    if (view.first_position + view.rows <= 2 * s_.block ||
        (view.first_position > 0 && !s_.sparse_followup))
      return {};
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) { out[head] = pattern(view, head); });
    return out;
  }

 private:
  /// Sums of the antidiagonals of stride x stride squares of scores -> softmax over each row of
  /// squares -> sums in blocks -> for each row block, the blocks that contain a share gamma of
  /// its sum.
  HeadPattern pattern(const LayerView& view, int head) const {
    const BlockGrid grid(s_.block, view.first_position), groups(s_.stride, view.first_position);
    const std::int32_t end = view.first_position + view.rows;
    const Groups keys = grouped_keys(*view.backend, cache_of_head(view, head), groups, end),
                 queries = grouped_queries(view, head);
    const int first = grid.block_of(view.first_position), blocks = grid.block_of(end - 1) + 1,
              first_group = groups.block_of(view.first_position);
    ChosenBlocks chosen(first, blocks);
    for (int row = first; row < blocks; ++row) {
      const int begin = (row - first) * (s_.block / s_.stride),
                count = std::min(s_.block / s_.stride,
                                 static_cast<int>(queries.vectors.rows()) - begin);
      std::vector<double> sums(static_cast<std::size_t>(row) + 1);  // [key blocks]
      add_attention(queries, keys, {begin, count}, first_group, [&](int group, double weight) {
        sums[grid.block_of(groups.begin(group))] += weight;
      });
      choose(sums, chosen);
    }
    return {.kind = HeadPattern::Kind::kBlocks,
            .block_size = s_.block,
            .block_rows = s_.block,
            .blocks = chosen.lists()};
  }

  static Groups grouped_keys(Backend& backend, const KvHeadCache& set, const BlockGrid& groups,
                             std::int32_t end) {
    const int head_dim = set.layout().head_dim;
    Groups out(groups.block_of(end - 1) + 1, groups.size, head_dim);
    for_each_key(backend, set, end, [&](std::int32_t position, const float* key) {
      out.set(groups.block_of(position), (position + groups.lead) % groups.size, key, head_dim);
    });
    return out;
  }

  /// The queries of a group in reverse order: the product with a group of keys is then the sum of
  /// an antidiagonal.
  Groups grouped_queries(const LayerView& view, int head) const {
    const int head_dim = view.shape.head_dim;
    Groups out((view.rows + s_.stride - 1) / s_.stride, s_.stride, head_dim);
    const std::vector<float> rows = view.stats.queries(head, 0, view.rows);
    for (int r = 0; r < view.rows; ++r) {
      out.set(r / s_.stride, s_.stride - 1 - r % s_.stride,
              rows.data() + static_cast<std::ptrdiff_t>(r) * head_dim, head_dim);
    }
    return out;
  }

  struct Range {
    int begin, count;
  };
  /// Calls add(key group, weight) for the attention of each group of queries of a range: the
  /// softmax of the antidiagonal sums / (stride sqrt(d)), over the groups up to its own.
  template <typename Add>
  void add_attention(const Groups& queries, const Groups& keys, const Range& rows, int first_group,
                     const Add& add) const {
    const int end = first_group + rows.begin + rows.count;  // of key groups
    const Eigen::MatrixXf sums =
        queries.vectors.middleRows(rows.begin, rows.count) * keys.vectors.topRows(end).transpose();
    const double head_dim = static_cast<double>(keys.vectors.cols()) / s_.stride,
                 scale = 1 / (s_.stride * std::sqrt(head_dim));
    std::vector<double> weights;
    for (int i = 0; i < rows.count; ++i) {
      weights.clear();
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (int g = 0; g <= first_group + rows.begin + i; ++g) {
        weights.push_back(keys.is_empty[g] ? -std::numeric_limits<double>::infinity()
                                           : sums(i, g) * scale);
        top = std::max(top, weights.back());
      }
      for (double& w : weights) total += w = std::exp(w - top);
      for (std::size_t g = 0; g < weights.size(); ++g) add(static_cast<int>(g), weights[g] / total);
    }
  }

  /// Chooses the key blocks of the last row block that `sums` covers: the one on the diagonal, the
  /// first one, and the others by their sums until the share is covered, and one more.
  void choose(const std::vector<double>& sums, ChosenBlocks& chosen) const {
    const int row = static_cast<int>(sums.size()) - 1;
    const double wanted = s_.gamma * std::accumulate(sums.begin(), sums.end(), 0.0);
    std::vector<int> others(static_cast<std::size_t>(row));
    std::iota(others.begin(), others.end(), 0);
    std::stable_sort(others.begin(), others.end(), [&](int a, int b) { return sums[a] > sums[b]; });
    chosen.add(row, row);
    chosen.add(row, 0);
    double covered = 0, last = sums[row];
    for (const int block : others) {
      if (covered >= wanted) break;
      chosen.add(row, block);
      covered += last;
      last = sums[block];
    }
  }

  Settings s_;
};

}  // namespace

/// The antidiagonals of squares of attention scores estimate the attention of blocks; each row
/// block computes the blocks that cover a share of it (XAttention, section 2, and the official
/// code).
MethodInfo xattention() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "xattention",
      .summary = "sparse prefill on blocks that cover a share of attention, by antidiagonal sums",
      .paper = "Xu et al., XAttention: Block Sparse Attention with Antidiagonal Scoring, 2025",
      .budget_unit =
          "no token budget: gamma is the share of the estimated attention to cover; every token is "
          "kept",
      .deviations =
          "gamma (tau in the paper) is one number for all heads; the official code also has "
          "thresholds for each head of Llama 3.1 8B, found by dynamic programming; each row block "
          "computes the key block on the diagonal and the first one; further blocks are added in "
          "descending order of their sums until the share is covered, and then one more (none with "
          "gamma=0), as in the official code for prompts of up to 16,384 tokens, which it handles "
          "in one chunk (paper: the fewest blocks that cover the share; official code in later "
          "chunks: the first block counts like the diagonal, and none is added); ties go to the "
          "earlier block; prompts of up to two blocks are dense; later turns on a kept cache align "
          "blocks and groups to the turn's first row (followup=dense computes them densely)",
      .parameters = {{"gamma", Kind::kNumber, "0.9", "share",
                      "estimated attention to cover; more than 1: every block", 0, 1.1},
                     {"stride", Kind::kChoice, "16", "4|8|16",
                      "side of the squares whose antidiagonals are summed"},
                     {"block", Kind::kChoice, "128", "64|128", "rows and keys of a block"},
                     {"followup", Kind::kChoice, "sparse", "sparse|dense",
                      "prefill of later turns on a kept cache"}},
      .make = [](const Parameters& p) {
        return Policies{.prefill = std::make_unique<XAttention>(XAttention::Settings{
                            p.number("gamma"), std::stoi(p.choice("stride")),
                            std::stoi(p.choice("block")), p.choice("followup") == "sparse"})};
      }};
}

}  // namespace turnbench
