// Scores from some dimensions of transposed keys.

#include <algorithm>
#include <vector>

#include "inference/cuda/score_rows.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

/// Selected dimensions of transposed keys.
struct KeyColumns {
  ScoredHeads heads;
  const int* dims;
  int count;
  const float* factors;  ///< null: all 1
  const std::byte* columns;
  std::int64_t stride;
  DType dtype;
};

template <typename T>
__device__ void score_column(const KeyColumns& job, const float* q, int j) {
  const T* columns = reinterpret_cast<const T*>(job.columns) + j;
  for (int first = 0; first < job.heads.heads; first += kHeadsAtOnce) {
    const int heads = min(kHeadsAtOnce, job.heads.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int i = 0; i < job.count; ++i) {
      const float x = to_float(columns[job.dims[i] * job.stride]);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < heads) sums[h] = fmaf(q[(first + h) * job.count + i], x, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      if (h < heads) job.heads.out[(first + h) * job.heads.by_head + j] = sums[h];
    }
  }
}

/// Grid: (keys / kChoiceThreads, jobs); one thread per key.
__global__ void __launch_bounds__(kChoiceThreads)
    score_columns(const KeyColumns* jobs, float scale) {
  const KeyColumns job = jobs[blockIdx.y];
  const int begin = static_cast<int>(blockIdx.x) * kChoiceThreads,
            j = begin + static_cast<int>(threadIdx.x);
  if (begin >= job.heads.n) return;
  auto* q = reinterpret_cast<float*>(shared_memory());  // [heads][count]
  for (int i = static_cast<int>(threadIdx.x); i < job.heads.heads * job.count;
       i += kChoiceThreads) {
    const int h = i / job.count;
    const float factor = job.factors == nullptr ? scale : scale * job.factors[h];
    q[i] = factor * job.heads.q[h * job.heads.q_stride + job.dims[i % job.count]];
  }
  __syncthreads();
  if (j >= job.heads.n) return;
  switch (job.dtype) {
    case DType::kF32:
      return score_column<float>(job, q, j);
    case DType::kF16:
      return score_column<__half>(job, q, j);
    case DType::kBF16:
      return score_column<__nv_bfloat16>(job, q, j);
  }
}

}  // namespace

void score_dimensions(Context& context, float scale, std::span<const DimensionScoreJob> jobs) {
  context.begin();
  std::vector<std::span<const std::byte>> lists;  // the dimensions and factors of all jobs
  for (const DimensionScoreJob& job : jobs) {
    lists.push_back(std::as_bytes(job.dims));
    lists.push_back(std::as_bytes(job.factors));
  }
  const std::byte* at = context.upload_pieces(lists);
  std::vector<KeyColumns> columns;
  std::size_t shared = 0;
  std::int64_t n = 0;
  for (const DimensionScoreJob& job : jobs) {
    const auto* dims = reinterpret_cast<const int*>(at);
    at += job.dims.size_bytes();
    const auto* factors = reinterpret_cast<const float*>(at);
    at += job.factors.size_bytes();
    columns.push_back({{job.q, job.out},
                       dims,
                       static_cast<int>(job.dims.size()),
                       job.factors.empty() ? nullptr : factors,
                       job.columns,
                       job.column_stride,
                       job.dtype});
    shared =
        std::max(shared, sizeof(float) * static_cast<std::size_t>(job.q.rows) * job.dims.size());
    n = std::max(n, job.out.columns);
  }
  context.launch(score_columns, choice_grid(n, kChoiceThreads, columns.size()), kChoiceThreads,
                 shared, context.upload(columns), scale);
}

}  // namespace turnbench::cuda
