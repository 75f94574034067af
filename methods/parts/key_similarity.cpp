#include "methods/parts/key_similarity.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "methods/parts/cached_keys.h"

namespace turnbench {
namespace {

constexpr double kAddedNorm = 1e-8;  // so that no key divides by zero

/// Keys whose similarities are in memory at a time: at most 64, and at most 8,192 elements, because
/// a GPU's block copies them to its shared memory.
int keys_together(int head_dim) {
  return std::clamp(8192 / head_dim, 1, 64);
}

/// Divides each row by its norm.  Returns 1 / norm of the rows.
std::vector<float> normalise(MatrixView<float> rows) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double squares = 0;
    for (std::int64_t d = 0; d < rows.columns; ++d)
      squares += static_cast<double>(rows(i, d)) * rows(i, d);
    const float inverse =
        out.emplace_back(static_cast<float>(1 / (std::sqrt(squares) + kAddedNorm)));
    for (std::int64_t d = 0; d < rows.columns; ++d) rows(i, d) *= inverse;
  }
  return out;
}

}  // namespace

KeyProducts::KeyProducts(const LayerView& view, const KvHeadCache& cache, int vectors)
    : backend_(*view.backend),
      cache_(cache),
      vectors_(vectors),
      memory_(static_cast<std::size_t>(vectors) *
                  static_cast<std::size_t>(view.shape.head_dim + cache.size()) * sizeof(float),
              view.backend->memory()) {}

std::vector<float> KeyProducts::of(MatrixView<const float> vectors, float scale) {
  float* q = memory_.as<float>();
  backend_.memory()->copy_floats(vectors.data, q, vectors.rows * vectors.columns);
  const MatrixView<float> out(q + vectors_ * vectors.columns, vectors.rows, cache_.size());
  const KeyScoreJob job{&cache_, {q, vectors.rows, vectors.columns}, {}, out};
  backend_.score_keys(scale, {&job, 1});
  return backend_.rows_on_host(out, all_slots(static_cast<int>(vectors.rows)));
}

std::vector<double> similarity_sums(const LayerView& view, const KvHeadCache& cache,
                                    float threshold) {
  const int n = cache.size();
  const std::int64_t dims = view.shape.head_dim;
  std::vector<float> keys = keys_on_host(*view.backend, cache, 0, n);
  const std::vector<float> inverse = normalise({keys.data(), n, dims});
  // The similarities of key i to all keys, of which `removed[i]` is removed from the sum of key
  // `last[i]`.  Similarities are symmetric, so the sums of rows are those of columns.
  std::vector<double> sums(static_cast<std::size_t>(n)), removed(sums.size());
  std::vector<int> last(sums.size());
  const int together = std::min(n, keys_together(view.shape.head_dim));
  KeyProducts products(view, cache, together);
  for (int first = 0; first < n; first += together) {
    const int count = std::min(together, n - first);
    const std::vector<float> block = products.of({keys.data() + first * dims, count, dims}, 1);
    view.backend->parallel_for(static_cast<std::size_t>(count), [&](std::size_t b) {
      const float* row = block.data() + b * static_cast<std::size_t>(n);
      const std::size_t i = static_cast<std::size_t>(first) + b;
      const auto similarity = [&](std::size_t j) { return i == j ? 0 : row[j] * inverse[j]; };
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const float x = similarity(j);
        sums[i] += x;
        if (x > threshold) last[i] = static_cast<int>(j);
      }
      removed[i] = similarity(static_cast<std::size_t>(last[i]));
    });
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[static_cast<std::size_t>(last[i])] -= removed[i];
  return sums;
}

}  // namespace turnbench
