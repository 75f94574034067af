#pragma once

// Scores of the query heads of a group: a warp reads each row once for all heads.

#include <algorithm>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/cuda/device.h"
#include "inference/cuda/grid.h"

namespace turnbench::cuda {

constexpr int kChoiceThreads = 256, kChoiceWarps = kChoiceThreads / kWarp;
constexpr int kHeadsAtOnce = 8;

/// Query heads, and the destination of their scores.
struct ScoredHeads {
  const float* q;
  std::int64_t q_stride;
  int heads, dim, n;
  float* out;
  std::int64_t by_head, by_row;  ///< strides of `out`

  ScoredHeads(MatrixView<const float> q, MatrixView<float> out)
      : q(q.data),
        q_stride(q.stride),
        heads(static_cast<int>(q.rows)),
        dim(static_cast<int>(q.columns)),
        n(static_cast<int>(out.columns)),
        out(out.data),
        by_head(out.stride),
        by_row(1) {}

  /// Copies the queries to shared memory [heads][dim], scaled.
  __device__ float* load_queries(float scale) const {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    for (int i = static_cast<int>(threadIdx.x); i < heads * dim; i += kChoiceThreads)
      shared[i] = scale * q[i / dim * q_stride + i % dim];
    __syncthreads();
    return shared;
  }
  std::size_t query_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(heads) * static_cast<std::size_t>(dim);
  }
};

/// Rows of floats: the terms of a score are products.
struct FloatRows {
  ScoredHeads heads;
  const float* vectors;
  std::int64_t stride;

  struct Row {
    const float* vector;
    __device__ float load(int d) const { return vector[d]; }
    __device__ static float add(float q, float x, float sum) { return fmaf(q, x, sum); }
    __device__ static float score(float sum) { return sum; }
  };
  __device__ Row row(int i) const { return {vectors + i * stride}; }
};

/// Grid: (rows / kChoiceWarps, jobs); a warp takes a row.
template <class Rows>
__global__ void __launch_bounds__(kChoiceThreads) score_rows(const Rows* jobs, float scale) {
  const Rows job = jobs[blockIdx.y];
  const ScoredHeads& heads = job.heads;
  const int begin = static_cast<int>(blockIdx.x) * kChoiceWarps,
            index = begin + static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  if (begin >= heads.n) return;
  const float* q = heads.load_queries(scale);
  if (index >= heads.n) return;
  const auto row = job.row(index);
  for (int first = 0; first < heads.heads; first += kHeadsAtOnce) {
    const int count = min(kHeadsAtOnce, heads.heads - first);
    float sums[kHeadsAtOnce] = {};
    for (int d = lane; d < heads.dim; d += kWarp) {
      const auto x = row.load(d);
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        if (h < count) sums[h] = row.add(q[(first + h) * heads.dim + d], x, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      const float sum = warp_sum(sums[h]);
      if (h < count && lane == 0)
        heads.out[(first + h) * heads.by_head + index * heads.by_row] = row.score(sum);
    }
  }
}

inline dim3 choice_grid(std::int64_t items, int per_block, std::size_t jobs) {
  return dim3(blocks_for(items, per_block), static_cast<unsigned>(jobs));
}

template <class Rows>
void score_all_rows(Context& context, float scale, const std::vector<Rows>& jobs) {
  std::size_t shared = 0;
  int n = 0;
  for (const Rows& job : jobs) {
    shared = std::max(shared, job.heads.query_bytes());
    n = std::max(n, job.heads.n);
  }
  context.launch(score_rows<Rows>, choice_grid(n, kChoiceWarps, jobs.size()), kChoiceThreads,
                 shared, context.upload(jobs), scale);
}

}  // namespace turnbench::cuda
