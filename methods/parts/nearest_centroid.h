#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/model/matrix_view.h"

namespace turnbench {

/// Centroids laid out for nearest_centroids: panels of 32, each of them [1 + dim][32], the last one
/// filled up with centroids that are never the nearest.
class CentroidTable {
 public:
  static constexpr std::int64_t kPanel = 32;

  /// `centroids` [count, dim], at least one.
  explicit CentroidTable(MatrixView<const float> centroids);

  std::int64_t count() const { return count_; }
  std::int64_t dim() const { return dim_; }
  std::int64_t panels() const { return (count_ + kPanel - 1) / kPanel; }
  /// [1 + dim][32]: what the sums of a panel's centroids start from (0, or infinite where there is
  /// no centroid), then their values.
  const float* panel(std::int64_t p) const { return values_.data() + p * (1 + dim_) * kPanel; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values_.size() * sizeof(float)); }

 private:
  std::int64_t count_, dim_;
  std::vector<float> values_;  // [panels][1 + dim][32]
};

/// What makes a centroid the nearest: the smallest Euclidean distance, or the largest inner
/// product.
enum class Nearness { kDistance, kProduct };

/// For each row [dim] the index of its nearest centroid, of several the lowest one.  Distances and
/// products are float sums in the order of the dimensions, each product rounded before it is added:
/// labels do not depend on the instruction set.  Centroids that differ by less than the rounding of
/// these sums may be taken for each other.
void nearest_centroids(MatrixView<const float> rows, const CentroidTable& table, Nearness nearness,
                       std::span<std::int32_t> labels);

/// The inner products of `vector` [dim] with each centroid, summed likewise.
void centroid_products(const float* vector, const CentroidTable& table, std::span<float> products);

}  // namespace turnbench
