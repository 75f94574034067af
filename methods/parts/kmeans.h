#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/random.h"
#include "inference/model/matrix_view.h"

namespace turnbench {

struct Clusters {
  std::vector<float> centroids;  ///< [clusters][dim]
  std::vector<std::int32_t>
      labels;  ///< [rows]: the nearest of these centroids, of several the lowest
  /// Over all rows, to the centroid of their label: the sum of squared Euclidean distances, or of
  /// 1 - cosine.
  double inertia = 0;
  int iterations = 0;  ///< that were done
};

// Lloyd's k-means over rows [n, dim], which may have gaps between them.  The first centroids are
// the rows with the indices `first`, one for each cluster.  Labels are found in float
// (nearest_centroids); centroids, shifts and inertia are sums in double, in the order of the rows.
// Both run on the caller's thread alone: who has several problems runs them side by side.  The same
// rows give the same bits whatever runs beside them, and on every machine.
// Fewer rows than clusters, no cluster, or an index that is no row are input errors; a value that
// is not finite is a runtime error.

/// Euclidean, as scikit-learn 1.9's KMeans(algorithm="lloyd", tol=1e-4, n_init=1) does it.  An
/// iteration labels the rows, then moves each centroid to the mean of its rows.  The last one is
/// that whose labels are those of the iteration before, whose centroids moved by a sum of squares
/// of at most 1e-4 times the mean variance of the dimensions, or the `max_iterations`th; if its
/// centroids moved, rows are labelled once more.  A cluster without rows takes one of those that
/// are farthest from their centroids, which leaves its own: the lowest cluster takes the farthest
/// row, of several the lowest.  If every row lies on its centroid, or all rows of a cluster left
/// that way, a cluster without rows moves to the centroid of the largest one.
///
/// Differences from scikit-learn.  It labels in double, by products of rows that it centres on
/// their mean to lose fewer digits; differences lose none.  It takes the farthest rows in no
/// particular order.  It also stops where labels stand still while a cluster without rows took a
/// far row, and then does not label again; here that is no end, so that as many clusters as
/// different rows find each of them, down to the tolerance.
Clusters k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                 int max_iterations);

/// By direction, as ClusterKV clusters keys: labels are those of the largest cosine, centroids the
/// mean of their rows as they are, not of their directions.  Always `iterations` times, then rows
/// are labelled once more.  A cluster without rows keeps its centroid.  The cosine with a vector of
/// zeros is 0.
Clusters cosine_k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                        int iterations);

/// Indices of `count` different rows out of `rows`, in the order in which they are drawn: what
/// k-means may begin with.  More than there are is an input error.
std::vector<std::int32_t> draw_rows(Random& random, std::int64_t rows, std::int64_t count);

}  // namespace turnbench
