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

/// The greatest singular values of a matrix with their right singular vectors, in double precision.
struct RightFactors {
  std::int64_t columns = 0;     ///< of the matrix
  std::vector<double> values;   ///< descending
  std::vector<double> vectors;  ///< [values, columns]

  std::int64_t rank() const { return std::ssize(values); }
};

/// The `rank` greatest ones, or all that there are (of the lesser of rows and columns); from the
/// eigenvectors of x^T x.
RightFactors right_factors(MatrixView<const float> x, int rank);

/// x V diag(1 / s), so that times `weighted_vectors` it is the best approximation of rank `rank` of
/// the x that the factors are of: [rows, rank].  0 for singular values that are 0 but for rounding.
std::vector<float> coefficients(MatrixView<const float> x, const RightFactors& factors);
/// diag(s) V^T: [rank, columns].
std::vector<float> weighted_vectors(const RightFactors& factors);

/// Keys before RoPE of all KV sets of a layer together as a product of low rank (Sun et al.,
/// ShadowKV, 2024): the sets' keys of a slot stand side by side in a row of a matrix.  Built by a
/// background task; sequences share it.
class LowRankKeys {
 public:
  /// Starts to factorise the keys of slots [0, end) of all sets.  Reads them at once.
  LowRankKeys(const LayerView& view, int end, int rank);
  /// Starts to find the coefficients of slots [before.end(), end) for the basis of `before`.
  LowRankKeys(const LayerView& view, std::shared_ptr<const LowRankKeys> before, int end);

  int first() const { return first_; }
  int end() const { return end_; }
  /// Of coefficients and, if it has one of its own, basis.
  std::size_t bytes() const;

  // These wait for the task, and are in the memory of the view's backend:
  /// [end - first, rank], in the dtype of the cache.
  const std::byte* coefficients() const;
  /// Of a set: [rank, head_dim].
  MatrixView<const float> basis(std::size_t set) const;

 private:
  struct Work {
    std::vector<float> keys;  ///< [end - first, width]; empty when it is done
    std::shared_ptr<const RightFactors> factors;
    std::vector<std::byte> coefficients;  ///< in host memory
  };

  void start(const LayerView& view, int rank);
  void wait() const;
  /// Copies what the task found to the backend's memory, once.
  void move() const;

  int first_ = 0, end_ = 0;
  std::int64_t sets_, head_dim_, rank_;
  DType dtype_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<const LowRankKeys> before_;  ///< null: this has the basis
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::shared_ptr<BackgroundJob> job_;
  mutable std::once_flag moved_;
  mutable Buffer coefficients_, basis_;
};

}  // namespace turnbench
