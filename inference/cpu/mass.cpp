#include "inference/cpu/mass.h"

#include <algorithm>
#include <vector>

#include "inference/cpu/attention.h"

namespace turnbench::cpu {
namespace {

constexpr int kRowsPerBlock = 128;  // rows of all heads whose probabilities are held at a time

void add_mass(float scale, const MassJob& job) {
  const KvHeadCache& keys = *job.keys;
  const auto head_dim = static_cast<std::size_t>(keys.layout().head_dim),
             heads = static_cast<std::size_t>(job.heads);
  const std::size_t ld =
      (static_cast<std::size_t>(keys.size()) + kPageTokens - 1) / kPageTokens * kPageTokens;
  const int per_block = std::max(1, kRowsPerBlock / job.heads);
  std::vector<float> queries, probabilities;
  std::vector<std::int32_t> positions, at;
  if (job.slash != nullptr) {
    for (int j = 0; j < keys.size(); ++j) at.push_back(keys.position(j));
  }
  for (int first = 0; first < job.rows; first += per_block) {
    const int count = std::min(per_block, job.rows - first);
    queries.clear();
    positions.clear();
    for (int r = first; r < first + count; ++r) {  // the heads together: keys are packed once
      const float* row = job.q + static_cast<std::size_t>(r) * job.q_stride;
      queries.insert(queries.end(), row, row + heads * head_dim);
      positions.insert(positions.end(), heads, job.positions[r]);
    }
    probabilities.resize(positions.size() * ld);
    row_probabilities(scale, keys, queries.data(), head_dim, positions.data(),
                      static_cast<int>(positions.size()), job.sliding_window, probabilities.data(),
                      ld);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const float* row = probabilities.data() + i * ld;
      const auto seen = static_cast<std::size_t>(keys.lower_bound(positions[i] + 1));
      float* vertical = job.vertical + i % heads * job.vertical_stride;
      for (std::size_t j = 0; j < seen; ++j) vertical[j] += row[j];
      for (std::size_t j = 0; job.slash != nullptr && j < seen; ++j)
        job.slash[static_cast<std::size_t>(positions[i] - at[j])] += row[j];
    }
  }
}

}  // namespace

void add_mass(ThreadPool& pool, float scale, std::span<const MassJob> jobs) {
  pool.parallel_for_if_free(jobs.size(), [&](std::size_t i) { add_mass(scale, jobs[i]); });
}

}  // namespace turnbench::cpu
