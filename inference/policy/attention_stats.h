#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/query_moments.h"

namespace turnbench {

struct ModelShape {
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  RopeAngles rope = {};  ///< empty in plans
  int group() const { return heads / kv_heads; }
};

/// The most recent query rows of one layer of a sequence, after RoPE, oldest first, with their
/// positions: SnapKV's observation window.  At most `capacity` rows, each of `width` = heads *
/// head_dim elements.
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
  /// Replaces all rows by the last ones of `other`, as many as this tail can store.
  void assign_last(const QueryTail& other);
  /// Removes the rows at or after `position`.
  void truncate_to_position(std::int32_t position);
  void clear() { count_ = 0; }

 private:
  int capacity_ = 0, first_ = 0, count_ = 0;
  std::int64_t width_ = 0;
  std::vector<float> rows_;  // [2 * capacity, width]: rows move to the front when it is full
  std::vector<std::int32_t> positions_;
};

/// Scores of slots, one row per query head: head(h)[slot].
struct HeadScores {
  std::int64_t stride = 0;  ///< floats per head, at least its slots
  std::vector<float> data;  ///< [heads, stride]
  MatrixView<float> rows(int heads) { return {data.data(), heads, stride}; }
  std::span<const float> head(int h, int slots) const {
    return {data.data() + h * stride, static_cast<std::size_t>(slots)};
  }
};

/// Rule for the sum of attention probabilities over rows.  The probabilities are
/// softmax((logit + g) / temperature).  With `gumbel`, g is drawn from Gumbel(0, 1) (Adnan et al.,
/// Keyformer, 2024); otherwise g is 0.
struct ColumnRule {
  bool gumbel = false;
  double temperature = 1;
  /// If not 0, the causal mask applies only to the last `causal_rows` rows of the prompt.  The rows
  /// before them are not masked: they attend to all keys that are cached at the end of the prompt,
  /// including keys at later positions and outside their sliding window.  The prompt must then be
  /// computed in one pass.
  int causal_rows = 0;
  auto operator<=>(const ColumnRule&) const = default;
};

/// Accumulated attention: for each query head and slot, the sum of the probabilities of `rows`
/// query rows (H2O's score).
struct ColumnMass {
  HeadScores scores;
  int rows = 0;
};

/// Column masses and moments of the queries of one layer of a sequence, accumulated over the passes
/// of a prefill.
struct ColumnMasses {
  std::map<ColumnRule, ColumnMass> by_rule;
  std::map<int, QueryMoments> moments;  ///< by `first_position` of `query_moments`
  double seconds = 0;                   ///< time spent on computing them
};

/// Consecutive query rows, after RoPE.
struct QueryRows {
  MatrixView<const float> q;                ///< [rows, heads * head_dim]
  const std::int32_t* positions = nullptr;  ///< [rows]
  int rows() const { return static_cast<int>(q.rows); }
};

/// Sums of attention probabilities along lines: `vertical` [slots] along columns; `slash` [last
/// row's position + 1] along diagonals, indexed by position of the row minus position of the key.
struct LineMass {
  std::vector<float> vertical, slash;
};

/// Attention statistics of one layer of one sequence.  They are computed on demand.  Window and
/// column masses are computed once, and all policies share the results.  No n x n matrix is stored.
/// All statistics are those of dense causal attention over the cached keys, even if the layer's
/// own attention is sparse.  Exception: a ColumnRule can change the probabilities and the mask of
/// column masses.  Window and column masses are also available if the sets are in host memory that
/// the backend cannot read: the layer's keys are then copied to the device.
class AttentionStats {
 public:
  AttentionStats(Backend& backend, const ModelShape& shape, float scale, int sliding_window,
                 std::span<const KvHeadCache> sets, QueryRows pass, const QueryTail* tail,
                 ColumnMasses* columns = nullptr, std::uint64_t noise_seed = 0);

  /// The statistics of the same rows over other KV sets of the layer, without column masses of
  /// earlier passes.  `sets` must outlive the result.
  AttentionStats for_sets(std::span<const KvHeadCache> sets) const;

  /// Sets the log-sum-exp of this pass's rows, [rows, heads], so that column masses need not
  /// compute it again.  Allowed only if the attention of the rows was dense.  `lse` must outlive
  /// this object.
  void set_log_sum_exp(MatrixView<const float> lse) { lse_ = lse; }

  /// For each query head and slot, the sum of the probabilities of the last `rows` query rows, or
  /// of all rows of the QueryTail if it has fewer.
  /// @throws Error (runtime) for more rows than the policies declare (`window`), and if there is no
  /// row to sum.
  const HeadScores& window_mass(int rows);
  /// The number of rows that window_mass(rows) sums.
  int window_rows(int rows) const;
  /// The queries of these rows, in host memory.
  /// @throws Error (runtime) as window_mass.
  QueryRows window_queries(int rows) const;

  /// For each query head and slot, the sum of the probabilities of all rows of this pass, plus the
  /// masses of earlier passes that the constructor received (`columns`).  O(slots) memory.  Rows
  /// are added one by one in order, so the result does not depend on the split into passes.
  /// @throws Error (runtime) if rows of earlier passes would attend to keys of this pass
  /// (`causal_rows`).
  const ColumnMass& column_mass(const ColumnRule& rule = {});

  /// The moments of the queries before RoPE over all rows of this pass, plus those of earlier
  /// passes that the constructor received (`columns`), without rows at positions below
  /// `first_position`.
  const QueryMoments& query_moments(int first_position);

  /// The queries of rows [first, first + rows) of this pass and one query head, after RoPE:
  /// [rows, head_dim].  Several threads may call it at once.
  std::vector<float> queries(int head, int first, int rows) const;

  /// Probabilities of chosen rows of this pass for one query head: out[r * stride + slot].  Returns
  /// `stride`.  Several threads may call it at once.
  std::size_t probabilities(int head, std::span<const int> rows, std::vector<float>& out) const;

  /// Calls visit(position, probabilities of the slots up to that position) for rows
  /// [first, first + rows) of this pass in order, for one query head.  O(slots) memory.  Several
  /// threads may call it at once.
  void for_each_row(
      int head, int first, int rows,
      const std::function<void(std::int32_t position, std::span<const float>)>& visit) const;

  /// Sums of one query head's probabilities along columns and diagonals over the last `rows` rows
  /// of this pass, or all if there are fewer.  Several threads may call it at once.
  LineMass line_mass(int head, int rows) const;
  /// The same sums over rows [first, first + rows) of this pass.  O(slots) memory.
  LineMass line_mass(int head, int first, int rows) const;

  /// Calls task(head) for every query head on the backend's host threads.
  void for_each_head(const std::function<void(int head)>& task) const;

  /// The number of multiply-adds spent on these statistics so far.
  double multiply_adds() const { return multiply_adds_; }

 private:
  const KvHeadCache& set_of(int head) const;
  MatrixView<const float> queries_of(int head) const;  ///< [rows of the pass, head_dim]
  /// Copies sets to the backend's memory unless the backend can read them.
  void make_readable();
  /// Consecutive rows of this pass, and the last position to which each of them attends.
  struct MassRows {
    int first = 0, count = 0;
    const std::int32_t* positions = nullptr;
    int sliding_window = 0;
    MatrixView<const float> lse = {};  ///< [count, heads]; null if unknown
  };
  void add_column_masses(const ColumnRule& rule, HeadScores& scores);
  void add_column_masses(const ColumnRule& rule, const MassRows& rows, HeadScores& scores);

  Backend& backend_;
  ModelShape shape_;
  float scale_;
  int sliding_window_;
  std::span<const KvHeadCache> sets_;
  std::shared_ptr<const std::vector<KvHeadCache>> copies_;  // in the backend's memory
  QueryRows pass_;
  const QueryTail* tail_;
  ColumnMasses* columns_;
  std::uint64_t noise_seed_;
  MatrixView<const float> lse_;
  ColumnMasses own_columns_;       // used if `columns` is null
  std::set<ColumnRule> counted_;   // rules whose masses include this pass
  std::set<int> counted_moments_;  // as in `moments`
  std::map<int, HeadScores> window_mass_;
  double multiply_adds_ = 0;
};

}  // namespace turnbench
