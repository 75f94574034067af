// Rows of sets as floats, keys transposed, and sums of values.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"
#include "inference/cuda/slot_ranges.h"

namespace turnbench::cuda {
namespace {

constexpr int kKeyThreads = 256, kKeyWarps = kKeyThreads / kWarp;
constexpr int kValueThreads = 64;
constexpr int kSideTokens = 32;  // side of a transposed tile, in tokens and in dimensions

struct FloatKeys {
  SlotRange slots;
  std::size_t offset;  ///< offset of this kind of keys in a page
  float* out;
  std::int64_t stride;
};

struct TransposedKeys {
  SlotRange slots;
  std::byte* columns;
  std::int64_t stride;
  int first_column;
};

struct SummedValues {
  SlotRange slots;
  double* sums;
  double tokens;
  float* mean;
};

template <typename T>
__device__ void widen_key(const FloatKeys& job, int slot) {
  const T* from = job.slots.row<T>(slot, job.offset);
  float* to = job.out + (slot - job.slots.first) * job.stride;
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < job.slots.layout.head_dim; d += kWarp)
    to[d] = to_float(from[d]);
}

/// Grid: (slots / kKeyWarps, jobs); one warp per slot.
__global__ void __launch_bounds__(kKeyThreads) widen_keys(const FloatKeys* jobs) {
  const FloatKeys job = jobs[blockIdx.y];
  const int slot = job.slots.first + static_cast<int>(blockIdx.x) * kKeyWarps +
                   static_cast<int>(threadIdx.x) / kWarp;
  if (slot >= job.slots.end) return;
  switch (job.slots.layout.dtype) {
    case DType::kF32:
      return widen_key<float>(job, slot);
    case DType::kF16:
      return widen_key<__half>(job, slot);
    case DType::kBF16:
      return widen_key<__nv_bfloat16>(job, slot);
  }
}

/// Bits: an integer as wide as the elements.
template <typename Bits>
__device__ void transpose_slots(const TransposedKeys& job, int begin) {
  auto* tile = reinterpret_cast<Bits*>(shared_memory());  // [kSideTokens][kSideTokens + 1]
  const int column = static_cast<int>(threadIdx.x) % kSideTokens,
            first_row = static_cast<int>(threadIdx.x) / kSideTokens,
            width = job.slots.layout.head_dim;
  auto* columns = reinterpret_cast<Bits*>(job.columns);
  for (int d0 = 0; d0 < width; d0 += kSideTokens) {
    for (int r = first_row; r < kSideTokens; r += kKeyThreads / kSideTokens) {
      const int slot = begin + r, d = d0 + column;
      if (slot >= job.slots.first && slot < job.slots.end && d < width)
        tile[r * (kSideTokens + 1) + column] = job.slots.row<Bits>(slot)[d];
    }
    __syncthreads();
    for (int r = first_row; r < kSideTokens; r += kKeyThreads / kSideTokens) {
      const int slot = begin + column, d = d0 + r;
      if (slot >= job.slots.first && slot < job.slots.end && d < width)
        columns[d * job.stride + slot - job.first_column] = tile[column * (kSideTokens + 1) + r];
    }
    __syncthreads();  // before the next dimensions are loaded
  }
}

/// Grid: (tiles of kSideTokens slots, jobs).
__global__ void __launch_bounds__(kKeyThreads) transpose_all(const TransposedKeys* jobs) {
  const TransposedKeys job = jobs[blockIdx.y];
  const int begin = (job.slots.first / kSideTokens + static_cast<int>(blockIdx.x)) * kSideTokens;
  if (begin >= job.slots.end) return;
  if (job.slots.layout.dtype == DType::kF32) {
    transpose_slots<std::uint32_t>(job, begin);
  } else {
    transpose_slots<std::uint16_t>(job, begin);
  }
}

template <typename T>
__device__ void sum_dimension(const SummedValues& job, int d) {
  const std::size_t offset = job.slots.layout.value_offset();
  double sum = job.sums[d];
#pragma unroll 8
  for (int slot = job.slots.first; slot < job.slots.end; ++slot)
    sum += static_cast<double>(to_float(job.slots.row<T>(slot, offset)[d]));
  job.sums[d] = sum;
  if (job.mean != nullptr) job.mean[d] = static_cast<float>(sum / job.tokens);
}

/// Grid: (dimensions / kValueThreads, jobs); one thread per dimension.
__global__ void __launch_bounds__(kValueThreads) sum_values(const SummedValues* jobs) {
  const SummedValues job = jobs[blockIdx.y];
  const int d = static_cast<int>(blockIdx.x) * kValueThreads + static_cast<int>(threadIdx.x);
  if (d >= job.slots.layout.head_dim) return;
  switch (job.slots.layout.dtype) {
    case DType::kF32:
      return sum_dimension<float>(job, d);
    case DType::kF16:
      return sum_dimension<__half>(job, d);
    case DType::kBF16:
      return sum_dimension<__nv_bfloat16>(job, d);
  }
}

}  // namespace

void read_rows(Context& context, std::span<const ReadRowsJob> jobs) {
  context.begin();
  const auto ranges = slot_ranges(
      context, jobs, [](const ReadRowsJob& job) { return job.first; },
      [](const ReadRowsJob& job) { return job.first + static_cast<int>(job.out.rows); });
  std::vector<FloatKeys> tasks;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const ReadRowsJob& job = jobs[i];
    tasks.push_back(
        {ranges[i], job.set->layout().offset_of(job.row), job.out.data, job.out.stride});
    rows = std::max(rows, job.out.rows);
  }
  context.launch(widen_keys, dim3(blocks_for(rows, kKeyWarps), static_cast<unsigned>(tasks.size())),
                 kKeyThreads, 0, context.upload(tasks));
}

void transpose_keys(Context& context, std::span<const TransposeKeysJob> jobs) {
  context.begin();
  const auto ranges = slot_ranges(
      context, jobs, [](const TransposeKeysJob& job) { return job.first; },
      [](const TransposeKeysJob& job) { return job.set->size(); });
  std::vector<TransposedKeys> tasks;
  std::int64_t slots = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    tasks.push_back({ranges[i], jobs[i].columns, jobs[i].column_stride, jobs[i].first_column});
    const int aligned = ranges[i].first / kSideTokens * kSideTokens;
    slots = std::max<std::int64_t>(slots, ranges[i].end - aligned);
  }
  context.launch(
      transpose_all, dim3(blocks_for(slots, kSideTokens), static_cast<unsigned>(tasks.size())),
      kKeyThreads, kSideTokens * (kSideTokens + 1) * sizeof(std::uint32_t), context.upload(tasks));
}

void add_values(Context& context, std::span<const AddValuesJob> jobs) {
  context.begin();
  const auto ranges = slot_ranges(
      context, jobs, [](const AddValuesJob& job) { return job.first; },
      [](const AddValuesJob& job) { return job.set->size(); });
  std::vector<SummedValues> tasks;
  std::int64_t dims = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    tasks.push_back({ranges[i], jobs[i].sums, static_cast<double>(jobs[i].tokens), jobs[i].mean});
    dims = std::max<std::int64_t>(dims, ranges[i].layout.head_dim);
  }
  context.launch(sum_values,
                 dim3(blocks_for(dims, kValueThreads), static_cast<unsigned>(tasks.size())),
                 kValueThreads, 0, context.upload(tasks));
}

}  // namespace turnbench::cuda
