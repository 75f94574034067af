#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// The rotation of queries and keys by their positions: see rope.h.
struct RopeAngles {
  std::span<const float> frequencies;  ///< [head_dim / 2], radians per position
  double attention_factor = 1;
};

/// Mean and covariance of the queries of each head before RoPE, over rows of a prompt.
class QueryMoments {
 public:
  QueryMoments() = default;
  QueryMoments(int heads, int head_dim);

  int rows() const { return rows_; }

  /// Adds rows of one head, one by one in order, so that the sums do not depend on the split into
  /// passes.  queries: [rows, head_dim], after RoPE; positions: [rows].
  void add(int head, std::span<const float> queries, std::span<const std::int32_t> positions,
           const RopeAngles& rope);
  void count_rows(int rows) { rows_ += rows; }

  /// For `mean` and `covariance`, there must be at least one row.  Both divide by the number of
  /// rows.
  std::vector<double> mean(int head) const;        ///< [head_dim]
  std::vector<double> covariance(int head) const;  ///< [head_dim, head_dim]

 private:
  int head_dim_ = 0, rows_ = 0;
  std::vector<double> sums_;      // [heads, head_dim]
  std::vector<double> products_;  // [heads, head_dim, head_dim]
};

}  // namespace turnbench
