#include "inference/cpu/line_mass.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "inference/cpu/attention.h"

namespace turnbench::cpu {
namespace {

constexpr int kRowsPerBlock = 128;  // rows of all heads whose probabilities are in memory at a time

void add_line_mass(float scale, const LineMassJob& job) {
  const KvHeadCache& keys = *job.keys;
  const int heads = job.heads();
  const std::int64_t head_dim = keys.layout().head_dim, ld = tiles_of(keys.size()) * kTile;
  const int per_block = std::max(1, kRowsPerBlock / heads);
  std::vector<float> queries, probabilities;
  std::vector<std::int32_t> positions, at;
  if (job.slash != nullptr) {
    for (int j = 0; j < keys.size(); ++j) at.push_back(keys.position(j));
  }
  for (int first = 0; first < job.rows(); first += per_block) {
    const int count = std::min(per_block, job.rows() - first);
    queries.clear();
    positions.clear();
    for (int r = first; r < first + count; ++r) {  // all heads together: keys are packed once
      queries.insert(queries.end(), job.q.row(r), job.q.row(r) + heads * head_dim);
      positions.insert(positions.end(), heads, job.positions[r]);
    }
    probabilities.resize(positions.size() * ld);
    const MatrixView<float> cells(probabilities.data(), std::ssize(positions), ld);
    row_probabilities(scale, keys, {queries.data(), cells.rows, head_dim}, positions.data(),
                      job.sliding_window, cells);
    for (int i = 0; i < cells.rows; ++i) {
      const std::int32_t position = job.positions[first + i / heads];
      const float* row = cells.row(i);
      const int seen = keys.lower_bound(position + 1);
      float* vertical = job.vertical.row(i % heads);
      for (int j = 0; j < seen; ++j) vertical[j] += row[j];
      for (int j = 0; job.slash != nullptr && j < seen; ++j) job.slash[position - at[j]] += row[j];
    }
  }
}

}  // namespace

void add_line_mass(ThreadPool& pool, float scale, std::span<const LineMassJob> jobs) {
  pool.parallel_for_if_free(jobs.size(), [&](std::size_t i) { add_line_mass(scale, jobs[i]); });
}

}  // namespace turnbench::cpu
