// Scores of product-quantized keys.

#include <algorithm>
#include <vector>

#include "inference/cuda/score_rows.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

/// The data for scoring the keys of one job by their codes. table: [parts * count][heads].
struct CodedKeys {
  const float* table;
  const std::uint8_t* codes;
  std::int64_t code_stride;
  int heads, parts, count, n;
  float* out;
  std::int64_t stride;
};

/// Grid: (keys / kChoiceThreads, jobs); one thread per key.
__global__ void __launch_bounds__(kChoiceThreads) score_coded_keys(const CodedKeys* jobs) {
  const CodedKeys job = jobs[blockIdx.y];
  const int j = static_cast<int>(blockIdx.x * kChoiceThreads + threadIdx.x);
  if (j >= job.n) return;
  for (int first = 0; first < job.heads; first += kHeadsAtOnce) {
    const int count = min(kHeadsAtOnce, job.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int i = 0; i < job.parts; ++i) {
      const int code = i * job.count + job.codes[i * job.code_stride + j];
      const float* row = job.table + std::int64_t{code} * job.heads + first;
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < count) sums[h] += row[h];
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      if (h < count) job.out[(first + h) * job.stride + j] = sums[h];
    }
  }
}

}  // namespace

void score_codes(Context& context, float scale, std::span<const CodeScoreJob> jobs) {
  context.begin();
  std::vector<FloatRows> parts;  // of the tables
  std::vector<CodedKeys> keys;
  std::int64_t n = 0;
  for (const CodeScoreJob& job : jobs) {
    if (job.out.columns == 0) continue;
    const std::int64_t heads = job.q.rows, all = job.centroids.rows, count = all / job.parts,
                       dim = job.centroids.columns;
    auto* table = context.scratch<float>(all * heads);
    for (int i = 0; i < job.parts; ++i) {
      const MatrixView<const float> centroids = job.centroids.rows_at(i * count, count);
      ScoredHeads scored(job.q.columns_at(i * dim, dim),
                         MatrixView<float>(table + i * count * heads, heads, count));
      scored.by_head = 1;
      scored.by_row = heads;
      parts.push_back({scored, centroids.data, centroids.stride});
    }
    keys.push_back({table, job.codes, job.code_stride, static_cast<int>(heads), job.parts,
                    static_cast<int>(count), static_cast<int>(job.out.columns), job.out.data,
                    job.out.stride});
    n = std::max(n, job.out.columns);
  }
  score_all_rows(context, scale, parts);
  context.launch(score_coded_keys, choice_grid(n, kChoiceThreads, keys.size()), kChoiceThreads, 0,
                 context.upload(keys));
}

}  // namespace turnbench::cuda
