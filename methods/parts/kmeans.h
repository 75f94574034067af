#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/random.h"
#include "inference/model/matrix_view.h"

namespace turnbench {

struct Clusters {
  std::vector<float> centroids;      ///< [clusters][dim]
  std::vector<std::int32_t> labels;  ///< [rows]: the nearest centroid; ties go to the lowest
  /// Sum over all rows of the squared Euclidean distance, or of 1 - cosine, to the centroid of the
  /// row's label.
  double inertia = 0;
  int iterations = 0;  ///< iterations performed
};

// Lloyd's k-means over rows [n, dim], which may have gaps between them.  The initial centroids are
// the rows with the indices `first`, one per cluster.  Labels are computed in float
// (nearest_centroids); centroids, shifts and inertia are sums in double, in row order.  Both
// functions run on the caller's thread only; callers run several problems in parallel.  Results are
// bit-identical on every machine and regardless of concurrent work.  @throws Error (input) for
// fewer rows than clusters, no cluster, or an invalid row index; Error (runtime) for a value that
// is not finite.

/// Euclidean k-means, as in scikit-learn 1.9's KMeans(algorithm="lloyd", tol=1e-4, n_init=1).  An
/// iteration labels the rows, then moves each centroid to the mean of its rows.  Iterations stop if
/// the labels equal those of the previous iteration, if the squared centroid shifts sum to at most
/// 1e-4 times the mean variance of the dimensions, or after `max_iterations`; if the centroids
/// moved in the last iteration, rows are labelled once more.  An empty cluster is relocated to one
/// of the rows farthest from their centroids, which leaves its previous cluster: the lowest empty
/// cluster takes the farthest row, and ties go to the lowest row.  If every row lies on its
/// centroid, or a cluster loses all of its rows in this way, an empty cluster moves to the centroid
/// of the largest one.
///
/// Differences from scikit-learn: scikit-learn labels in double, by inner products of rows that are
/// centred on their mean to reduce cancellation; differences, as used here, do not cancel.  It
/// takes the farthest rows in unspecified order.  It also stops if the labels are unchanged
/// although an empty cluster was relocated, and then does not label again; here iterations
/// continue, so that with as many clusters as distinct rows each row gets its own cluster, down to
/// the tolerance.
Clusters k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                 int max_iterations);

/// k-means by direction, as in ClusterKV: labels maximise the cosine; centroids are means of the
/// rows themselves, not of their directions.  Runs exactly `iterations` iterations, then labels the
/// rows once more.  An empty cluster keeps its centroid.  The cosine with a zero vector is 0.
Clusters cosine_k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                        int iterations);

}  // namespace turnbench
