// The nearest centroids of vectors.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/float_math.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kNearestThreads = 256, kNearestWarps = kNearestThreads / kWarp;
constexpr int kVectorsPerWarp = 4;

struct NearestTask {
  const float *vectors, *centroids;
  std::int64_t stride, centroid_stride;
  int rows, count, dim;
  std::uint8_t* out;
};

/// Grid: (vectors / 32, jobs).  Each lane has a centroid c of a tile in shared memory, each warp
/// some vectors v; v . c - |c|^2 / 2 is maximal for the nearest centroid.
__global__ void __launch_bounds__(kNearestThreads) find_nearest(const NearestTask* tasks) {
  const NearestTask task = tasks[blockIdx.y];
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp,
            begin = static_cast<int>(blockIdx.x) * kNearestWarps * kVectorsPerWarp,
            first = begin + warp * kVectorsPerWarp;
  if (begin >= task.rows) return;
  auto* tile = reinterpret_cast<float*>(shared_memory());  // [kWarp][dim + 1]
  const int pitch = task.dim + 1;
  float best[kVectorsPerWarp];
  int index[kVectorsPerWarp] = {};
  const float* vectors[kVectorsPerWarp];
#pragma unroll
  for (int v = 0; v < kVectorsPerWarp; ++v) {
    best[v] = kMasked;
    vectors[v] = task.vectors + min(first + v, task.rows - 1) * task.stride;
  }
  for (int c0 = 0; c0 < task.count; c0 += kWarp) {
    __syncthreads();  // the previous tile has been used
    const int count = min(kWarp, task.count - c0);
    for (int c = warp; c < count; c += kNearestWarps) {
      for (int d = lane; d < task.dim; d += kWarp)
        tile[c * pitch + d] = task.centroids[(c0 + c) * task.centroid_stride + d];
    }
    __syncthreads();
    const float* centroid = tile + min(lane, count - 1) * pitch;
    float square = 0, scores[kVectorsPerWarp];
    for (int d = 0; d < task.dim; ++d) square = fmaf(centroid[d], centroid[d], square);
#pragma unroll
    for (int v = 0; v < kVectorsPerWarp; ++v) scores[v] = -0.5f * square;
    for (int d = 0; d < task.dim; ++d) {
      const float x = centroid[d];
#pragma unroll
      for (int v = 0; v < kVectorsPerWarp; ++v) scores[v] = fmaf(vectors[v][d], x, scores[v]);
    }
#pragma unroll
    for (int v = 0; v < kVectorsPerWarp; ++v) {
      if (lane >= count || scores[v] <= best[v]) continue;
      best[v] = scores[v];
      index[v] = c0 + lane;
    }
  }
#pragma unroll
  for (int v = 0; v < kVectorsPerWarp; ++v) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFF, best[v], step);
      const int at = __shfl_xor_sync(0xFFFFFFFF, index[v], step);
      if (other > best[v] || (other == best[v] && at < index[v])) {
        best[v] = other;
        index[v] = at;
      }
    }
    if (lane == 0 && first + v < task.rows)
      task.out[first + v] = static_cast<std::uint8_t>(index[v]);
  }
}

}  // namespace

void assign_nearest(Context& context, std::span<const NearestJob> jobs) {
  context.begin();
  std::vector<NearestTask> tasks;
  int rows = 0, dim = 0;
  for (const NearestJob& job : jobs) {
    tasks.push_back({job.vectors.data, job.centroids.data, job.vectors.stride, job.centroids.stride,
                     static_cast<int>(job.vectors.rows), static_cast<int>(job.centroids.rows),
                     static_cast<int>(job.vectors.columns), job.out});
    rows = std::max(rows, tasks.back().rows);
    dim = std::max(dim, tasks.back().dim);
  }
  context.launch(
      find_nearest,
      dim3(blocks_for(rows, kNearestWarps * kVectorsPerWarp), static_cast<unsigned>(tasks.size())),
      kNearestThreads, sizeof(float) * kWarp * static_cast<std::size_t>(dim + 1),
      context.upload(tasks));
}

}  // namespace turnbench::cuda
