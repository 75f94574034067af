#include "methods/parts/kmeans_plus_plus.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/error.h"

namespace turnbench {
namespace {

double squared_distance(MatrixView<const float> rows, std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows.columns; ++i) {
    const double d = static_cast<double>(rows(a, i)) - static_cast<double>(rows(b, i));
    sum += d * d;
  }
  return sum;
}

}  // namespace

std::vector<std::int32_t> k_means_plus_plus(MatrixView<const float> rows, int clusters,
                                            Random& random) {
  if (clusters < 1 || rows.rows < clusters) {
    throw input_error("k-means++: found {} clusters for {} rows, expected 1 to {}", clusters,
                      rows.rows, rows.rows);
  }
  const int trials = 2 + static_cast<int>(std::log(clusters));
  std::vector<std::int32_t> chosen;
  std::vector<double> nearest(static_cast<std::size_t>(rows.rows));  // squared distances
  const auto distances_with = [&](std::int64_t row) {
    std::vector<double> out(nearest.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      const double d = squared_distance(rows, static_cast<std::int64_t>(r), row);
      out[r] = chosen.empty() ? d : std::min(nearest[r], d);
    }
    return out;
  };
  const auto first = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(rows.rows)));
  nearest = distances_with(first);
  chosen.push_back(first);
  while (std::ssize(chosen) < clusters) {
    std::vector<double> sums(nearest.size());
    std::partial_sum(nearest.begin(), nearest.end(), sums.begin());
    std::int32_t best = -1;
    std::vector<double> best_distances;
    double least = 0;
    for (int i = 0; i < trials; ++i) {
      const auto at = std::lower_bound(sums.begin(), sums.end(), random.uniform() * sums.back());
      const auto row = static_cast<std::int32_t>(
          std::min<std::ptrdiff_t>(at - sums.begin(), std::ssize(sums) - 1));
      std::vector<double> distances = distances_with(row);
      const double sum = std::accumulate(distances.begin(), distances.end(), 0.0);
      if (best >= 0 && sum >= least) continue;
      best = row;
      least = sum;
      best_distances = std::move(distances);
    }
    chosen.push_back(best);
    nearest = std::move(best_distances);
  }
  return chosen;
}

}  // namespace turnbench
