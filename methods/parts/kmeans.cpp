#include "methods/parts/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "methods/parts/nearest_centroid.h"

namespace turnbench {
namespace {

constexpr double kShiftTolerance = 1e-4;

/// The state of k-means: rows, labels and centroids.
class Lloyd {
 public:
  Lloyd(MatrixView<const float> rows, std::span<const std::int32_t> first)
      : rows_(rows),
        clusters_(first.size()),
        dim_(rows.columns),
        labels_(std::max<std::int64_t>(rows.rows, 0)),
        counts_(clusters_) {
    check(first);
    for (const std::int32_t row : first)
      centroids_.insert(centroids_.end(), rows_.row(row), rows_.row(row) + dim_);
  }

  const std::vector<std::int32_t>& labels() const { return labels_; }

  void label_by_distance() { label(as_floats(), Nearness::kDistance); }

  /// The norm of a row does not affect which cosine is the largest.
  void label_by_cosine() {
    std::vector<float> directions(centroids_.size());
    for (std::size_t c = 0; c < clusters_; ++c) {
      const std::span<const double> from = centroid(c);
      const double norm =
          std::sqrt(std::inner_product(from.begin(), from.end(), from.begin(), 0.0));
      if (norm == 0) continue;
      for (std::size_t i = 0; i < dim_; ++i)
        directions[c * dim_ + i] = static_cast<float>(from[i] / norm);
    }
    label(directions, Nearness::kProduct);
  }

  struct Move {
    double squares = 0;      ///< sum of the squared distances that centroids moved
    bool relocated = false;  ///< an empty cluster was relocated
  };

  /// Moves centroids to the mean of their rows; those of empty clusters stay or are relocated.
  Move move_to_means(bool relocate) {
    Move out;
    std::vector<double> before(clusters_ * dim_);
    before.swap(centroids_);  // sums until they are divided
    counts_.assign(clusters_, 0);
    for (std::size_t r = 0; r < labels_.size(); ++r) {
      const auto label = static_cast<std::size_t>(labels_[r]);
      ++counts_[label];
      double* sum = centroids_.data() + label * dim_;
      const float* row = row_of(r);
      for (std::size_t i = 0; i < dim_; ++i) sum[i] += row[i];
    }
    if (relocate) out.relocated = relocate_empty(before);
    const auto largest = static_cast<std::size_t>(std::max_element(counts_.begin(), counts_.end()) -
                                                  counts_.begin());
    for (std::size_t c = 0; c < clusters_; ++c) {
      for (std::size_t i = 0; i < dim_; ++i)
        if (counts_[c] > 0) centroids_[c * dim_ + i] /= static_cast<double>(counts_[c]);
    }
    for (std::size_t c = 0; c < clusters_; ++c) {
      if (counts_[c] > 0) continue;
      const double* from = relocate ? &centroids_[largest * dim_] : &before[c * dim_];
      std::copy_n(from, dim_, &centroids_[c * dim_]);
    }
    for (std::size_t k = 0; k < centroids_.size(); ++k)
      out.squares += (centroids_[k] - before[k]) * (centroids_[k] - before[k]);
    return out;
  }

  /// Mean over the dimensions of the rows' variance.
  double mean_variance() const {
    std::vector<double> mean(dim_);
    const auto n = static_cast<double>(labels_.size());
    for (std::size_t r = 0; r < labels_.size(); ++r) {
      for (std::size_t i = 0; i < dim_; ++i) mean[i] += row_of(r)[i];
    }
    for (double& m : mean) m /= n;
    double squares = 0;
    for (std::size_t r = 0; r < labels_.size(); ++r) squares += squared_distance(r, mean);
    return squares / (n * static_cast<double>(dim_));
  }

  double sum_of_squares() const {
    double sum = 0;
    for (std::size_t r = 0; r < labels_.size(); ++r) sum += squared_distance(r, own_centroid(r));
    return sum;
  }

  /// The sum of 1 - cosine.
  double sum_of_angles() const {
    double sum = 0;
    for (std::size_t r = 0; r < labels_.size(); ++r) {
      const std::span<const double> own = own_centroid(r);
      double product = 0, row_square = 0, own_square = 0;
      for (std::size_t i = 0; i < dim_; ++i) {
        const double x = row_of(r)[i];
        product += x * own[i];
        row_square += x * x;
        own_square += own[i] * own[i];
      }
      const double norms = std::sqrt(row_square) * std::sqrt(own_square);
      sum += norms == 0 ? 1 : 1 - product / norms;
    }
    return sum;
  }

  Clusters result(double inertia, int iterations) {
    return {.centroids = as_floats(),
            .labels = std::move(labels_),
            .inertia = inertia,
            .iterations = iterations};
  }

 private:
  void check(std::span<const std::int32_t> first) const {
    const auto n = static_cast<std::int64_t>(labels_.size());
    const auto clusters = static_cast<std::int64_t>(clusters_);
    if (clusters == 0 || n < clusters) {
      throw input_error("k-means: found {} clusters for {} rows, expected 1 to {}", clusters, n, n);
    }
    for (const std::int32_t row : first) {
      if (row < 0 || row >= n)
        throw input_error("k-means: found the first row {}, expected 0 to {}", row, n - 1);
    }
    for (std::size_t r = 0; r < labels_.size(); ++r) {
      const float* row = row_of(r);
      if (!std::all_of(row, row + dim_, [](float x) { return std::isfinite(x); }))
        throw runtime_error("k-means: row {} is not finite", r);
    }
  }

  const float* row_of(std::size_t r) const { return rows_.row(static_cast<std::int64_t>(r)); }
  std::span<const double> centroid(std::size_t c) const {
    return std::span(centroids_).subspan(c * dim_, dim_);
  }
  std::span<const double> own_centroid(std::size_t r) const { return centroid(labels_[r]); }

  double squared_distance(std::size_t r, std::span<const double> to) const {
    const float* row = row_of(r);
    double sum = 0;
    for (std::size_t i = 0; i < dim_; ++i) sum += (row[i] - to[i]) * (row[i] - to[i]);
    return sum;
  }

  std::vector<float> as_floats() const {
    std::vector<float> out(centroids_.size());
    std::transform(centroids_.begin(), centroids_.end(), out.begin(),
                   [](double x) { return static_cast<float>(x); });
    return out;
  }

  void label(const std::vector<float>& centroids, Nearness nearness) {
    const MatrixView view(centroids.data(), static_cast<std::int64_t>(clusters_), rows_.columns);
    nearest_centroids(rows_, CentroidTable(view), nearness, labels_);
  }

  /// Relocates each empty cluster to one of the rows farthest from their centroids.  Returns false
  /// if there is no empty cluster, or every row lies on its centroid.
  bool relocate_empty(const std::vector<double>& before) {
    const auto empty = static_cast<std::size_t>(std::count(counts_.begin(), counts_.end(), 0));
    if (empty == 0) return false;
    std::vector<double> distance(labels_.size());
    for (std::size_t r = 0; r < distance.size(); ++r) {
      const auto label = static_cast<std::size_t>(labels_[r]);
      distance[r] = squared_distance(r, std::span(before).subspan(label * dim_, dim_));
    }
    std::vector<std::size_t> far(distance.size());
    std::iota(far.begin(), far.end(), std::size_t{0});
    const auto end = far.begin() + static_cast<std::ptrdiff_t>(empty);
    std::partial_sort(far.begin(), end, far.end(), [&](std::size_t a, std::size_t b) {
      return distance[a] != distance[b] ? distance[a] > distance[b] : a < b;
    });
    if (distance[far[0]] == 0) return false;
    std::vector<std::size_t> without;
    for (std::size_t c = 0; c < clusters_; ++c)
      if (counts_[c] == 0) without.push_back(c);
    for (std::size_t k = 0; k < empty; ++k) {
      const std::size_t c = without[k], row = far[k];
      const auto old = static_cast<std::size_t>(labels_[row]);
      for (std::size_t i = 0; i < dim_; ++i) {
        centroids_[old * dim_ + i] -= row_of(row)[i];
        centroids_[c * dim_ + i] = row_of(row)[i];
      }
      counts_[c] = 1;
      --counts_[old];
    }
    return true;
  }

  MatrixView<const float> rows_;
  std::size_t clusters_, dim_;
  std::vector<std::int32_t> labels_;  // [rows]
  std::vector<std::int64_t> counts_;  // [clusters]: rows of each
  std::vector<double> centroids_;     // [clusters][dim]
};

}  // namespace

Clusters k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                 int max_iterations) {
  Lloyd lloyd(rows, first);
  const double tolerance = kShiftTolerance * lloyd.mean_variance();
  Lloyd::Move move{.squares = std::numeric_limits<double>::infinity()};
  std::vector<std::int32_t> before;
  int iterations = 0;
  for (bool settled = false; !settled && iterations < max_iterations; ++iterations) {
    lloyd.label_by_distance();
    move = lloyd.move_to_means(/*relocate=*/true);
    settled = move.squares <= tolerance || (lloyd.labels() == before && !move.relocated);
    before = lloyd.labels();
  }
  if (move.squares > 0) lloyd.label_by_distance();
  return lloyd.result(lloyd.sum_of_squares(), iterations);
}

Clusters cosine_k_means(MatrixView<const float> rows, std::span<const std::int32_t> first,
                        int iterations) {
  Lloyd lloyd(rows, first);
  for (int i = 0; i < iterations; ++i) {
    lloyd.label_by_cosine();
    lloyd.move_to_means(/*relocate=*/false);
  }
  lloyd.label_by_cosine();
  return lloyd.result(lloyd.sum_of_angles(), iterations);
}

}  // namespace turnbench
