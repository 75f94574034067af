#include "methods/parts/chunk_landmarks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "methods/parts/cached_keys.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr double kLeastNorms = 1e-8;  // minimal product of norms, as in torch's cosine_similarity

/// Computes the mean of a chunk's rows.  Returns the minimal cosine of a row with it.
float landmark_of(MatrixView<const float> keys, float* mean) {
  std::vector<double> sum(keys.columns);
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += double{keys.row(j)[d]};
  }
  double own = 0;
  for (std::size_t d = 0; d < sum.size(); ++d) {
    sum[d] /= static_cast<double>(keys.rows);
    own += sum[d] * sum[d];
    mean[d] = static_cast<float>(sum[d]);
  }
  double least = 1;
  for (std::int64_t j = 0; j < keys.rows; ++j) {
    double dot = 0, norm = 0;
    for (std::size_t d = 0; d < sum.size(); ++d) {
      const double x = double{keys.row(j)[d]};
      dot += x * sum[d];
      norm += x * x;
    }
    least = std::min(least, dot / std::max(std::sqrt(own * norm), kLeastNorms));
  }
  return static_cast<float>(least);
}

}  // namespace

ChunkLandmarks::ChunkLandmarks(const LayerView& view, const Settings& settings)
    : settings_(settings),
      row_bytes_(static_cast<std::int64_t>(view.sets.front().layout().row_bytes(KvRow::kKey))) {
  const std::int64_t head_dim = view.shape.head_dim;
  const DType dtype = view.sets.front().layout().dtype;
  const std::size_t sets = view.sets.size();
  const std::int64_t chunks = settings.end - settings.first, left = chunks - settings.outliers;
  outliers_.resize(sets);
  chunks_.resize(sets);
  std::vector<std::byte> packed(sets * static_cast<std::size_t>(left * row_bytes_));
  view.backend->memory()->synchronize();
  // Set by set, so that the keys of only one set are in memory as floats at a time.
  std::vector<float> means(chunks * head_dim), strangeness(chunks);
  for (std::size_t s = 0; s < sets; ++s) {
    const std::vector<float> keys =
        keys_on_host(*view.backend, view.sets[s], settings.first * settings.chunk,
                     settings.end * settings.chunk);
    constexpr std::int64_t kTogether = 64;  // chunks
    const auto tasks = static_cast<std::size_t>((chunks + kTogether - 1) / kTogether);
    view.backend->parallel_for(tasks, [&](std::size_t t) {
      const std::int64_t first = static_cast<std::int64_t>(t) * kTogether;
      for (std::int64_t c = first; c < std::min(first + kTogether, chunks); ++c) {
        const MatrixView<const float> rows(keys.data() + c * settings_.chunk * head_dim,
                                           settings_.chunk, head_dim);
        strangeness[c] = -landmark_of(rows, means.data() + c * head_dim);
      }
    });
    std::vector<std::int32_t> strange = top_k(strangeness, settings.outliers);
    std::byte* to = packed.data() + static_cast<std::int64_t>(s) * left * row_bytes_;
    auto next = strange.begin();
    for (std::int32_t c = 0; c < chunks; ++c) {
      if (next != strange.end() && *next == c) {
        outliers_[s].push_back(settings.first + c);
        ++next;
      } else {
        chunks_[s].push_back(settings.first + c);
        for (std::int64_t d = 0; d < head_dim; ++d) {
          store_element(to, dtype, d, means[c * head_dim + d]);
        }
        to += row_bytes_;
      }
    }
  }
  landmarks_ = Buffer(packed.size(), view.backend->memory());
  data_ = landmarks_.data();
  if (packed.empty()) return;
  view.backend->memory()->copy(std::array{Copy{data_, packed.data(), packed.size()}});
  view.backend->memory()->synchronize();
}

PageBounds ChunkLandmarks::landmarks(std::size_t set) const {
  std::byte* first = data_ + static_cast<std::int64_t>(set) * std::ssize(chunks_[set]) * row_bytes_;
  return {first, first, settings_.chunk};
}

}  // namespace turnbench
