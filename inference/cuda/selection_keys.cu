// Keys out of the pages of sets: as floats, transposed, and the bounds of pages of any length; sums
// of values; and keys that are computed out of a factorisation.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kKeyThreads = 256, kKeyWarps = kKeyThreads / kWarp;
constexpr int kValueThreads = 64;
constexpr int kRebuildThreads = 64, kRebuiltTogether = 8;  // keys of a block
constexpr int kSideTokens = 32;  // of a tile that is transposed, and as many dimensions

/// Slots [first, end) of a set.
struct SlotRange {
  PageTable pages;  ///< from the page of slot `first` on
  PageLayout layout;
  int first, end;

  template <typename T>
  __device__ const T* row(int slot, std::size_t offset = 0) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens - first / kPageTokens] + offset) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
};

struct FloatKeys {
  SlotRange slots;
  std::size_t offset;  ///< of the kind of keys in a page
  float* out;
  std::int64_t stride;
};

struct BoundedPages {
  SlotRange slots;  ///< from the first slot of a page on
  PageBounds bounds;
  int first_page;  ///< of the bounds
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

/// A key that is rebuilt: where it comes from, and where it goes.
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

template <typename T>
__device__ void widen_key(const FloatKeys& job, int slot) {
  const T* from = job.slots.row<T>(slot, job.offset);
  float* to = job.out + (slot - job.slots.first) * job.stride;
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < job.slots.layout.head_dim; d += kWarp)
    to[d] = to_float(from[d]);
}

/// Grid: (slots / kKeyWarps, jobs); a warp takes a slot.
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

template <typename T>
__device__ void bound_page(const BoundedPages& job, int page) {
  const int width = job.slots.layout.head_dim, begin = page * job.bounds.page_tokens,
            end = min(begin + job.bounds.page_tokens, job.slots.end);
  const std::size_t at = static_cast<std::size_t>(page - job.first_page) * width;
  T* lows = reinterpret_cast<T*>(job.bounds.low) + at;
  T* highs = reinterpret_cast<T*>(job.bounds.high) + at;
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < width; d += kWarp) {
    T low = job.slots.row<T>(begin)[d], high = low;
    for (int slot = begin + 1; slot < end; ++slot) {
      const T x = job.slots.row<T>(slot)[d];
      if (to_float(x) < to_float(low)) low = x;
      if (to_float(x) > to_float(high)) high = x;
    }
    lows[d] = low;
    highs[d] = high;
  }
}

/// Grid: (pages / kKeyWarps, jobs); a warp takes a page.
__global__ void __launch_bounds__(kKeyThreads) bound_pages(const BoundedPages* jobs) {
  const BoundedPages job = jobs[blockIdx.y];
  const int page = job.slots.first / job.bounds.page_tokens +
                   static_cast<int>(blockIdx.x) * kKeyWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (page * job.bounds.page_tokens >= job.slots.end) return;
  switch (job.slots.layout.dtype) {
    case DType::kF32:
      return bound_page<float>(job, page);
    case DType::kF16:
      return bound_page<__half>(job, page);
    case DType::kBF16:
      return bound_page<__nv_bfloat16>(job, page);
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
    __syncthreads();  // before the next dimensions come
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

/// Grid: (dimensions / kValueThreads, jobs); a thread takes a dimension.
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

/// A thread takes the pairs of dimensions that RoPE rotates.
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

/// Slots [first, end) of the set of every job; their tables of pages are uploaded at once.
template <typename Job, typename First, typename End>
std::vector<SlotRange> slot_ranges(Context& context, std::span<const Job> jobs,
                                   const First& first_of, const End& end_of) {
  std::vector<SlotRange> out;
  std::vector<std::span<const std::byte>> tables;
  for (const Job& job : jobs) {
    const int first = first_of(job), end = std::max(first, end_of(job));
    check_on_device(*job.set);
    const auto pages = job.set->page_indices();
    const std::size_t from = std::min(pages.size(), static_cast<std::size_t>(first / kPageTokens)),
                      to = static_cast<std::size_t>(end + kPageTokens - 1) / kPageTokens;
    tables.push_back(std::as_bytes(pages.subspan(from, std::max(from, to) - from)));
    out.push_back({PageTable::of(*job.set, nullptr), job.set->layout(), first, end});
  }
  const std::byte* at = context.upload_pieces(tables);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].pages.indices = reinterpret_cast<const std::uint32_t*>(at);
    at += tables[i].size();
  }
  return out;
}

unsigned up_to(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
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
  context.launch(widen_keys, dim3(up_to(rows, kKeyWarps), static_cast<unsigned>(tasks.size())),
                 kKeyThreads, 0, context.upload(tasks));
}

void update_page_bounds(Context& context, std::span<const PageBoundsJob> jobs) {
  context.begin();
  const auto ranges = slot_ranges(
      context, jobs,
      [](const PageBoundsJob& job) {
        return job.first < job.set->size() ? job.first - job.first % job.bounds.page_tokens
                                           : job.set->size();
      },
      [](const PageBoundsJob& job) { return job.set->size(); });
  std::vector<BoundedPages> tasks;
  std::int64_t pages = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (ranges[i].first == ranges[i].end) continue;
    tasks.push_back({ranges[i], jobs[i].bounds, jobs[i].first_page});
    pages = std::max<std::int64_t>(
        pages, up_to(ranges[i].end - ranges[i].first, jobs[i].bounds.page_tokens));
  }
  context.launch(bound_pages, dim3(up_to(pages, kKeyWarps), static_cast<unsigned>(tasks.size())),
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
  context.launch(transpose_all,
                 dim3(up_to(slots, kSideTokens), static_cast<unsigned>(tasks.size())), kKeyThreads,
                 kSideTokens * (kSideTokens + 1) * sizeof(std::uint32_t), context.upload(tasks));
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
  context.launch(sum_values, dim3(up_to(dims, kValueThreads), static_cast<unsigned>(tasks.size())),
                 kValueThreads, 0, context.upload(tasks));
}

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
                 dim3(up_to(most, kRebuiltTogether), static_cast<unsigned>(tasks.size())),
                 kRebuildThreads, kRebuiltTogether * rank * sizeof(float), context.upload(tasks));
}

}  // namespace turnbench::cuda
