#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// The largest singular values of a matrix and their right singular vectors, in double precision.
struct RightFactors {
  std::int64_t columns = 0;     ///< of the matrix
  std::vector<double> values;   ///< descending
  std::vector<double> vectors;  ///< [values, columns]

  std::int64_t rank() const { return std::ssize(values); }
};

/// The factors of the `rank` largest singular values, at most min(rows, columns), computed from the
/// eigenvectors of x^T x.
RightFactors right_factors(MatrixView<const float> x, int rank);

/// x V diag(1 / s): [rows, rank].  For the matrix that was factorised, the product with
/// `weighted_vectors` is its best approximation of this rank.  Columns of singular values that are
/// 0 up to rounding are 0.
std::vector<float> coefficients(MatrixView<const float> x, const RightFactors& factors);
/// diag(s) V^T: [rank, columns].
std::vector<float> weighted_vectors(const RightFactors& factors);

/// Joint low-rank factorisation of the keys before RoPE of all KV sets of a layer (Sun et al.,
/// ShadowKV, 2024): each matrix row is the concatenation of the sets' keys of one slot.  Computed
/// by a background task; shared by sequences.
class LowRankKeys {
 public:
  /// Starts to factorise the keys of slots [0, end) of all sets.  Copies them immediately.
  LowRankKeys(const LayerView& view, int end, int rank);
  /// Starts to compute the coefficients of slots [before.end(), end) in the basis of `before`.
  LowRankKeys(const LayerView& view, std::shared_ptr<const LowRankKeys> before, int end);

  int first() const { return first_; }
  int end() const { return end_; }
  /// Bytes of the coefficients and, if this object has its own, of the basis.
  std::size_t bytes() const;

  // These wait for the task and return data in the memory of the view's backend:
  /// [end - first, rank], in the dtype of the cache.
  const std::byte* coefficients() const;
  /// The basis of a set: [rank, head_dim].
  MatrixView<const float> basis(std::size_t set) const;

 private:
  struct Work {
    std::vector<float> keys;  ///< [end - first, width]; empty when done
    std::shared_ptr<const RightFactors> factors;
    std::vector<std::byte> coefficients;  ///< in host memory
  };

  void start(const LayerView& view, int rank);
  /// Copies the results of the task to the backend's memory, once.
  void move() const;

  int first_ = 0, end_ = 0;
  std::int64_t sets_, head_dim_, rank_;
  DType dtype_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<const LowRankKeys> before_;  ///< null: this object has the basis
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::shared_ptr<BackgroundJob> job_;
  mutable std::once_flag moved_;
  mutable Buffer coefficients_, basis_;
};

}  // namespace turnbench
