// Blending and merging of attention outputs.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/float_math.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kBlendThreads = 256;

struct BlendedHeads {
  float* out;
  std::int64_t stride;
  int heads, dim;
  const float *weights, *vector;
};

/// Grid: (heads, jobs).
__global__ void __launch_bounds__(kBlendThreads) blend_heads(const BlendedHeads* jobs) {
  const BlendedHeads job = jobs[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x);
  if (head >= job.heads) return;
  const float weight = job.weights[head];
  float* out = job.out + head * job.stride;
  for (int d = static_cast<int>(threadIdx.x); d < job.dim; d += kBlendThreads)
    out[d] = fmaf(weight, out[d], (1 - weight) * job.vector[d]);
}

struct MergedRows {
  float *out, *lse;
  const float *other_out, *other_lse;
  std::int64_t out_stride, lse_stride, other_out_stride, other_lse_stride;
  int rows, heads, dim;
};

/// Grid: (rows, jobs); a warp processes heads round-robin.
__global__ void __launch_bounds__(kBlendThreads) merge_rows(const MergedRows* jobs) {
  const MergedRows job = jobs[blockIdx.y];
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            lane = thread % kWarp;
  if (row >= job.rows) return;
  for (int h = thread / kWarp; h < job.heads; h += (kBlendThreads / kWarp)) {
    float* lse = job.lse + row * job.lse_stride + h;
    const float a = *lse, b = job.other_lse[row * job.other_lse_stride + h], top = fmaxf(a, b);
    if (b == kMasked) continue;
    const float own = expf(a - top), other = expf(b - top), sum = own + other;
    float* out = job.out + row * job.out_stride + h * job.dim;
    const float* from = job.other_out + row * job.other_out_stride + h * job.dim;
    for (int d = lane; d < job.dim; d += kWarp)
      out[d] = fmaf(own / sum, out[d], other / sum * from[d]);
    __syncwarp();
    if (lane == 0) *lse = top + logf(sum);
  }
}

}  // namespace

void blend(Context& context, std::span<const BlendJob> jobs) {
  context.begin();
  std::vector<BlendedHeads> tasks;
  unsigned heads = 0;
  for (const BlendJob& job : jobs) {
    tasks.push_back({job.out.data, job.out.stride, static_cast<int>(job.out.rows),
                     static_cast<int>(job.out.columns), job.weights, job.vector});
    heads = std::max(heads, static_cast<unsigned>(job.out.rows));
  }
  context.launch(blend_heads, dim3(heads, static_cast<unsigned>(tasks.size())), kBlendThreads, 0,
                 context.upload(tasks));
}

void merge(Context& context, std::span<const MergeJob> jobs) {
  context.begin();
  std::vector<MergedRows> tasks;
  unsigned rows = 0;
  for (const MergeJob& job : jobs) {
    tasks.push_back({job.out.data, job.lse.data, job.other_out.data, job.other_lse.data,
                     job.out.stride, job.lse.stride, job.other_out.stride, job.other_lse.stride,
                     static_cast<int>(job.out.rows), static_cast<int>(job.lse.columns),
                     static_cast<int>(job.out.columns / job.lse.columns)});
    rows = std::max(rows, static_cast<unsigned>(job.out.rows));
  }
  context.launch(merge_rows, dim3(rows, static_cast<unsigned>(tasks.size())), kBlendThreads, 0,
                 context.upload(tasks));
}

}  // namespace turnbench::cuda
