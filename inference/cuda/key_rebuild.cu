// Keys that are computed from a factorization.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"
#include "inference/cuda/slot_ranges.h"

namespace turnbench::cuda {
namespace {

constexpr int kRebuildThreads = 64, kRebuiltTogether = 8;  // keys per block

/// A key to rebuild: its source and its destination.
struct RebuiltKey {
  std::int32_t row, slot, position;
};

struct RebuiltKeys {
  SlotRange slots;
  const RebuiltKey* keys;
  int count;
  const std::byte* coefficients;
  int rank;
  const float* basis;
  std::int64_t basis_stride;
  const float *cos, *sin;
  std::int64_t cos_stride, sin_stride;
};

/// A thread computes pairs of dimensions that RoPE rotates.
template <typename T>
__device__ void rebuild_some(const RebuiltKeys& job, int first) {
  auto* rows = reinterpret_cast<float*>(shared_memory());  // [kRebuiltTogether, rank]
  const int count = min(kRebuiltTogether, job.count - first), half = job.slots.layout.head_dim / 2,
            thread = static_cast<int>(threadIdx.x);
  const auto* coefficients = reinterpret_cast<const T*>(job.coefficients);
  for (int i = thread; i < kRebuiltTogether * job.rank; i += kRebuildThreads) {
    const int k = i / job.rank, r = i % job.rank;
    rows[i] =
        k < count
            ? to_float(
                  coefficients[static_cast<std::size_t>(job.keys[first + k].row) * job.rank + r])
            : 0;
  }
  __syncthreads();
  for (int d = thread; d < half; d += kRebuildThreads) {
    float low[kRebuiltTogether] = {}, high[kRebuiltTogether] = {};
    for (int r = 0; r < job.rank; ++r) {
      const float a = job.basis[r * job.basis_stride + d],
                  b = job.basis[r * job.basis_stride + half + d];
#pragma unroll
      for (int k = 0; k < kRebuiltTogether; ++k) {
        low[k] = fmaf(rows[k * job.rank + r], a, low[k]);
        high[k] = fmaf(rows[k * job.rank + r], b, high[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kRebuiltTogether; ++k) {
      if (k >= count) break;
      const RebuiltKey& key = job.keys[first + k];
      const float cos = job.cos[key.position * job.cos_stride + d],
                  sin = job.sin[key.position * job.sin_stride + d];
      T* to = const_cast<T*>(job.slots.row<T>(key.slot));
      to[d] = from_float<T>(low[k] * cos - high[k] * sin);
      to[half + d] = from_float<T>(high[k] * cos + low[k] * sin);
    }
  }
}

/// Grid: (keys / kRebuiltTogether, jobs).
__global__ void __launch_bounds__(kRebuildThreads) rebuild_all(const RebuiltKeys* jobs) {
  const RebuiltKeys job = jobs[blockIdx.y];
  const int first = static_cast<int>(blockIdx.x) * kRebuiltTogether;
  if (first >= job.count) return;
  switch (job.slots.layout.dtype) {
    case DType::kF32:
      return rebuild_some<float>(job, first);
    case DType::kF16:
      return rebuild_some<__half>(job, first);
    case DType::kBF16:
      return rebuild_some<__nv_bfloat16>(job, first);
  }
}

}  // namespace

void rebuild_keys(Context& context, std::span<const RebuildKeysJob> jobs) {
  context.begin();
  const auto ranges = slot_ranges(
      context, jobs, [](const RebuildKeysJob&) { return 0; },
      [](const RebuildKeysJob& job) { return job.set->size(); });
  std::vector<RebuiltKey> keys;
  std::vector<RebuiltKeys> tasks;
  int most = 0;
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const RebuildKeysJob& job = jobs[i];
    const std::size_t before = keys.size();
    for (const RebuildKeysJob::Run& run : job.runs) {
      for (std::int32_t k = 0; k < run.count; ++k)
        keys.push_back({run.row + k, run.slot + k, job.set->position(run.slot + k)});
    }
    const auto count = static_cast<int>(keys.size() - before);
    tasks.push_back({ranges[i], nullptr, count, job.coefficients, static_cast<int>(job.basis.rows),
                     job.basis.data, job.basis.stride, job.rope.cos.data, job.rope.sin.data,
                     job.rope.cos.stride, job.rope.sin.stride});
    most = std::max(most, count);
    rank = std::max(rank, job.basis.rows);
  }
  if (most == 0) return;
  const RebuiltKey* at = context.upload(keys);
  for (RebuiltKeys& task : tasks) {
    task.keys = at;
    at += task.count;
  }
  context.launch(rebuild_all,
                 dim3(blocks_for(most, kRebuiltTogether), static_cast<unsigned>(tasks.size())),
                 kRebuildThreads, kRebuiltTogether * rank * sizeof(float), context.upload(tasks));
}

}  // namespace turnbench::cuda
