#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "inference/backend.h"

namespace turnbench {

struct ModelShape {
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int group() const { return heads / kv_heads; }
};

/// The last query rows of one layer of a sequence, after RoPE, oldest first: [rows, heads *
/// head_dim] with their positions.  Holds at most `capacity` rows.
class QueryTail {
 public:
  QueryTail() = default;
  QueryTail(int capacity, std::int64_t width);

  int capacity() const { return capacity_; }
  int rows() const { return count_; }
  MatrixView<const float> queries() const;  ///< [rows, width]
  const float* row(int i) const;            ///< i-th oldest, [width]
  const std::int32_t* positions() const { return positions_.data() + first_; }  ///< [rows]
  std::int64_t width() const { return width_; }

  void push(const float* query, std::int32_t position);  ///< query: [width]
  /// Forgets the rows at or after `position`.
  void truncate_to_position(std::int32_t position);
  void clear();

 private:
  int capacity_ = 0, first_ = 0, count_ = 0;
  std::int64_t width_ = 0;
  std::vector<float> rows_;  // room for 2 * capacity rows: the window slides, then moves back
  std::vector<std::int32_t> positions_;
};

/// One row of scores per query head: head(h)[slot].
struct HeadScores {
  std::int64_t stride = 0;  ///< floats per head, at least its slots
  std::vector<float> data;  ///< [heads, stride]
  MatrixView<float> rows(int heads) { return {data.data(), heads, stride}; }
  std::span<const float> head(int h, int slots) const {
    return {data.data() + h * stride, static_cast<std::size_t>(slots)};
  }
};

/// How the probabilities of a row count: as they are, or as softmax((logit + g) / temperature) with
/// g drawn from Gumbel(0, 1) (Adnan et al., Keyformer, 2024).
struct ColumnRule {
  bool gumbel = false;
  double temperature = 1;
  /// If not 0, only so many last rows of the prompt are causal: those before them see all that is
  /// cached when it ends, also behind their sliding window.  The prompt must then be one pass.
  int causal_rows = 0;
  auto operator<=>(const ColumnRule&) const = default;
};

/// Sum over `rows` query rows of what they give to every cached slot, per query head.
struct ColumnMass {
  HeadScores scores;
  int rows = 0;
};

/// Column masses of one layer of a sequence, gathered over the passes of a prefill.
struct ColumnMasses {
  std::map<ColumnRule, ColumnMass> by_rule;
  double seconds = 0;  ///< spent on them
};

/// The query rows of a pass, after RoPE.
struct QueryRows {
  MatrixView<const float> q;                ///< [rows, heads * head_dim]
  const std::int32_t* positions = nullptr;  ///< [rows]
  int rows() const { return static_cast<int>(q.rows); }
};

/// Attention mass of some rows on each line that they reach: `vertical` by slot, `slash` by the
/// distance between the positions of row and key (as many as the last row's position and 1).
struct LineMass {
  std::vector<float> vertical, slash;
};

/// Attention statistics of one layer of one sequence, computed when asked and once however many
/// policies ask, in tiles: no n x n matrix exists.  All are statistics of dense causal attention
/// over what is cached, also where the layer's own attention is sparse.
class AttentionStats {
 public:
  AttentionStats(Backend& backend, const ModelShape& shape, float scale, int sliding_window,
                 std::span<const KvHeadCache> sets, QueryRows pass, const QueryTail* tail,
                 ColumnMasses* columns = nullptr, std::uint64_t noise_seed = 0);

  /// The statistics of the same rows over other sets of the layer, with nothing computed yet and no
  /// column masses of earlier passes.  `sets` must outlive them.
  AttentionStats for_sets(std::span<const KvHeadCache> sets) const;

  /// Hands over the log-sum-exp [rows, heads] of this pass's rows, if its attention was dense, so
  /// that column masses need not find it again.  It must outlive this object.
  void set_log_sum_exp(MatrixView<const float> lse) { lse_ = lse; }

  /// Sum over the last `rows` query rows (as many as are remembered) of the attention probability
  /// of every cached slot: per query head.
  /// @throws Error (runtime) for more rows than the policies declare (`window`), and for none.
  const HeadScores& window_mass(int rows);
  /// Rows that window_mass(rows) really sums.
  int window_rows(int rows) const;

  /// Sum over all rows of this pass, and of the passes that `columns` remembers, of what they give
  /// to every cached slot: per query head.  O(slots) memory; rows are added one by one in order, so
  /// the split into passes does not show.
  /// @throws Error (runtime) if rows of earlier passes would have to see this one's keys.
  const ColumnMass& column_mass(const ColumnRule& rule = {});

  /// Row `row` of this pass for one query head, after RoPE: [head_dim].
  std::span<const float> query(int head, int row) const;

  /// Probabilities of chosen rows of this pass for one query head: out[r * ld + slot].  Returns
  /// ld.  Safe to call for several heads at the same time.
  std::size_t probabilities(int head, std::span<const int> rows, std::vector<float>& out) const;

  /// visit(position, probabilities of the slots up to it) for `rows` rows of this pass from row
  /// `first` on, in order, for one query head.  O(slots) memory, whatever `rows`.  Safe to call for
  /// several heads at the same time.
  void for_each_row(
      int head, int first, int rows,
      const std::function<void(std::int32_t position, std::span<const float>)>& visit) const;

  /// The sums over the last `rows` rows of this pass (at most all of them) of one query head's
  /// attention probabilities along columns and diagonals.  Safe to call for several heads at the
  /// same time.
  LineMass line_mass(int head, int rows) const;
  /// The same for `rows` rows of this pass from row `first` on.  O(slots) memory, whatever `rows`.
  LineMass line_mass(int head, int first, int rows) const;

  /// task(head) for every query head on the backend's threads.
  void for_each_head(const std::function<void(int head)>& task) const;

  /// Multiply-adds spent here so far.
  double multiply_adds() const { return multiply_adds_; }

 private:
  const KvHeadCache& set_of(int head) const;
  /// Rows of this pass that follow each other, and the last position that each of them sees.
  struct MassRows {
    int first = 0, count = 0;
    const std::int32_t* positions = nullptr;
    int sliding_window = 0;
    MatrixView<const float> lse = {};  ///< [count, heads]; null if nobody has found it
  };
  void add_column_masses(const ColumnRule& rule, HeadScores& scores);
  void add_column_masses(const ColumnRule& rule, const MassRows& rows, HeadScores& scores);

  Backend& backend_;
  ModelShape shape_;
  float scale_;
  int sliding_window_;
  std::span<const KvHeadCache> sets_;
  QueryRows pass_;
  const QueryTail* tail_;
  ColumnMasses* columns_;
  std::uint64_t noise_seed_;
  MatrixView<const float> lse_;
  ColumnMasses own_columns_;  // where `columns` is null
  std::set<ColumnRule> counted_;
  std::map<int, HeadScores> window_mass_;
  double multiply_adds_ = 0;
};

}  // namespace turnbench
