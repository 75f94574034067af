#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/model/matrix_view.h"

namespace turnbench {

/// Centroids in the layout of nearest_centroids: panels of 32, each [1 + dim][32].  The last panel
/// is padded with centroids that are never the nearest.
class CentroidTable {
 public:
  static constexpr std::int64_t kPanel = 32;

  /// `centroids` [count, dim], at least one.
  explicit CentroidTable(MatrixView<const float> centroids);

  std::int64_t dim() const { return dim_; }
  std::int64_t panels() const { return (count_ + kPanel - 1) / kPanel; }
  /// [1 + dim][32]: the initial values of the sums of a panel's centroids (0, or infinite for
  /// padding), then the values of the centroids.
  const float* panel(std::int64_t p) const { return values_.data() + p * (1 + dim_) * kPanel; }

 private:
  std::int64_t count_, dim_;
  std::vector<float> values_;  // [panels][1 + dim][32]
};

/// The measure of nearness: the smallest Euclidean distance, or the largest inner product.
enum class Nearness { kDistance, kProduct };

/// For each row [dim], the index of its nearest centroid; ties go to the lowest index.  Distances
/// and products are float sums in the order of the dimensions, with each product rounded before it
/// is added, so labels do not depend on the instruction set.  Centroids whose distances differ by
/// less than the rounding errors may be confused.
void nearest_centroids(MatrixView<const float> rows, const CentroidTable& table, Nearness nearness,
                       std::span<std::int32_t> labels);

}  // namespace turnbench
