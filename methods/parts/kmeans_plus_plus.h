#pragma once

#include <cstdint>
#include <vector>

#include "common/random.h"
#include "inference/model/matrix_view.h"

namespace turnbench {

/// The initial rows of greedy k-means++ (Arthur and Vassilvitskii, 2007), as in scikit-learn's
/// kmeans_plusplus: the first row is drawn uniformly; each further one is the best of 2 + floor(ln
/// clusters) rows, drawn with probabilities proportional to the squared distances to the rows
/// chosen so far.  The best one leaves the smallest sum of these distances; ties go to the first
/// drawn.
/// @throws Error (input) for fewer rows than clusters, or no cluster.
std::vector<std::int32_t> k_means_plus_plus(MatrixView<const float> rows, int clusters,
                                            Random& random);

}  // namespace turnbench
