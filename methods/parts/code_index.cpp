#include "methods/parts/code_index.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/random.h"
#include "methods/parts/cached_keys.h"
#include "methods/parts/kmeans.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr std::uint64_t kSeed = 4321;  // as in PQCache's official implementation

}  // namespace

void check_parts(int parts, std::int64_t head_dim) {
  if (head_dim % parts == 0) return;
  throw input_error("m: found {} parts, expected a divisor of the {} dimensions of a head", parts,
                    head_dim);
}

CodeIndex::CodeIndex(const LayerView& view, const CodeSettings& settings,
                     std::span<const int> first)
    : settings_(settings), head_dim_(view.shape.head_dim) {
  const std::size_t parts = static_cast<std::size_t>(settings.parts);
  const std::int64_t dim = head_dim_ / settings.parts;
  check_parts(settings.parts, head_dim_);
  work_->problems.resize(view.sets.size() * parts);
  work_->centroids.resize(view.sets.size() *
                          static_cast<std::size_t>(settings.count() * head_dim_));
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const auto keys = std::make_shared<const std::vector<float>>(
        keys_on_host(*view.backend, view.sets[s], first[s], view.sets[s].size()));
    for (std::size_t part = 0; part < parts; ++part) work_->problems[s * parts + part].keys = keys;
  }
  job_ = view.background->start(work_->problems.size(), [work = work_, settings, dim,
                                                         head_dim = head_dim_](std::size_t i) {
    Problem& problem = work->problems[i];
    const std::int64_t rows = std::ssize(*problem.keys) / head_dim,
                       part = static_cast<std::int64_t>(i) % settings.parts;
    // The same initial tokens for all problems of this length, as in the official implementation.
    Random random(kSeed);
    const std::vector<std::int32_t> initial = draw_rows(random, rows, settings.count());
    const MatrixView<const float> keys(problem.keys->data(), rows, head_dim);
    const Clusters clusters =
        k_means(keys.columns_at(part * dim, dim), initial, settings.iterations);
    std::copy(clusters.centroids.begin(), clusters.centroids.end(),
              work->centroids.begin() + static_cast<std::ptrdiff_t>(i) * settings.count() * dim);
    for (const std::int32_t label : clusters.labels)
      problem.codes.push_back(static_cast<std::uint8_t>(label));
    problem.iterations = clusters.iterations;
    problem.keys.reset();
  });
}

MatrixView<const float> CodeIndex::centroids(std::size_t set) const {
  const std::int64_t rows = std::int64_t{settings_.parts} * settings_.count(),
                     dim = head_dim_ / settings_.parts;
  return {work_->centroids.data() + static_cast<std::int64_t>(set) * rows * dim, rows, dim};
}

std::span<const std::uint8_t> CodeIndex::codes(std::size_t set, int part) const {
  return work_
      ->problems[set * static_cast<std::size_t>(settings_.parts) + static_cast<std::size_t>(part)]
      .codes;
}

int CodeIndex::iterations() const {
  int out = 0;
  for (const Problem& p : work_->problems) out = std::max(out, p.iterations);
  return out;
}

}  // namespace turnbench
