#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/matrix_view.h"
#include "methods/kmeans.h"
#include "methods/nearest_centroid.h"

namespace turnbench {

/// Vectors of one KV head in a few bits each (product quantization, Jegou et al. 2011; of keys:
/// PQCache, section 3).  Their dimensions are cut into `partitions` equal parts, each with 2^bits
/// centroids of its own; the code of a vector is the index of the nearest centroid (Euclidean, of
/// several the lowest) in each partition.  Inner products with a query are then estimated from one
/// small table per query.
class ProductQuantizer {
 public:
  /// For `rows` vectors, whose codes are 0 until the partitions are trained.  An input error where
  /// partitions does not divide head_dim, or bits is not 1 to 8.
  ProductQuantizer(int head_dim, int partitions, int bits, std::int64_t rows);

  struct Training {
    double inertia = 0;  ///< of the rows' parts and their centroids
    int iterations = 0;
  };

  /// k_means over one partition of `vectors` [rows, head_dim], as many as the constructor was told;
  /// `first` are the 2^bits rows that it begins with.  Sets this partition's centroids and codes,
  /// and touches nothing else: partitions can be trained side by side.
  Training train(int partition, MatrixView<const float> vectors,
                 std::span<const std::int32_t> first, int max_iterations);

  /// The codes [partitions] of a vector [head_dim], by the centroids as they are.
  void encode(std::span<const float> vector, std::span<std::uint8_t> codes) const;
  /// Adds the codes of one more vector behind the others.
  void append(std::span<const float> vector);

  /// The inner products of a query's parts [head_dim] with the centroids: [partitions][2^bits].
  std::vector<float> lookup_tables(std::span<const float> query) const;
  /// The estimated inner products of rows [first, first + scores.size()) with the query of
  /// `tables`: sums of one entry of each partition, in their order.
  void estimate(std::span<const float> tables, std::int64_t first, std::span<float> scores) const;

  int partitions() const { return static_cast<int>(tables_.size()); }
  int bits() const { return bits_; }
  std::int64_t rows() const { return static_cast<std::int64_t>(codes_.size()) / partitions(); }
  /// [partitions], of one row.
  std::span<const std::uint8_t> codes(std::int64_t row) const {
    return std::span(codes_).subspan(static_cast<std::size_t>(row) * tables_.size(),
                                     tables_.size());
  }

  /// What a row's codes need, partitions * bits; a byte of storage holds one code of any `bits`.
  std::int64_t bits_per_row() const { return std::int64_t{partitions()} * bits_; }
  std::int64_t code_bytes() const { return static_cast<std::int64_t>(codes_.size()); }
  /// With what fills panels of 32 up.
  std::int64_t centroid_bytes() const;

 private:
  std::int64_t part() const { return head_dim_ / partitions(); }

  int head_dim_, bits_;
  std::vector<CentroidTable>
      tables_;                       // [partitions], each 2^bits centroids [head_dim / partitions]
  std::vector<std::uint8_t> codes_;  // [rows][partitions]
};

}  // namespace turnbench
