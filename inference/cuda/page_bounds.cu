// Bounds of the keys of pages of any length, and the pages' scores.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/score_rows.h"
#include "inference/cuda/selection.h"
#include "inference/cuda/slot_ranges.h"

namespace turnbench::cuda {
namespace {

constexpr int kBoundThreads = 256, kBoundWarps = kBoundThreads / kWarp;

struct BoundedPages {
  SlotRange slots;  ///< from the first slot of a page on
  PageBounds bounds;
  int first_page;  ///< index in the bounds
};

template <typename T>
__device__ void bound_page(const BoundedPages& job, int page) {
  const int width = job.slots.layout.head_dim, begin = page * job.bounds.page_tokens,
            end = min(begin + job.bounds.page_tokens, job.slots.end);
  const std::int64_t index = page - job.first_page, stride = job.bounds.column_stride,
                     first = stride == 0 ? index * width : index, step = stride == 0 ? 1 : stride;
  T* lows = reinterpret_cast<T*>(job.bounds.low) + first;
  T* highs = reinterpret_cast<T*>(job.bounds.high) + first;
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < width; d += kWarp) {
    T low = job.slots.row<T>(begin)[d], high = low;
    for (int slot = begin + 1; slot < end; ++slot) {
      const T x = job.slots.row<T>(slot)[d];
      if (to_float(x) < to_float(low)) low = x;
      if (to_float(x) > to_float(high)) high = x;
    }
    lows[d * step] = low;
    highs[d * step] = high;
  }
}

/// Grid: (pages / kBoundWarps, jobs); one warp per page.
__global__ void __launch_bounds__(kBoundThreads) bound_pages(const BoundedPages* jobs) {
  const BoundedPages job = jobs[blockIdx.y];
  const int page = job.slots.first / job.bounds.page_tokens +
                   static_cast<int>(blockIdx.x) * kBoundWarps +
                   static_cast<int>(threadIdx.x) / kWarp;
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

/// Bounds of pages: the score uses the greater of the products with both bounds.
template <typename T>
struct BoundRows {
  ScoredHeads heads;
  const T *low, *high;

  struct Both {
    float low, high;
  };
  struct Row {
    const T *low, *high;
    __device__ Both load(int d) const { return {to_float(low[d]), to_float(high[d])}; }
    __device__ static float add(float q, Both x, float sum) {
      return fmaf(q, q > 0 ? x.high : x.low, sum);
    }
    __device__ static float score(float sum) { return sum; }
  };
  __device__ Row row(int i) const {
    const std::int64_t at = std::int64_t{i} * heads.dim;
    return {low + at, high + at};
  }
};

}  // namespace

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
        pages, blocks_for(ranges[i].end - ranges[i].first, jobs[i].bounds.page_tokens));
  }
  context.launch(bound_pages,
                 dim3(blocks_for(pages, kBoundWarps), static_cast<unsigned>(tasks.size())),
                 kBoundThreads, 0, context.upload(tasks));
}

void score_pages(Context& context, float scale, std::span<const PageScoreJob> jobs) {
  context.begin();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    with_type(dtype, [&](auto type) {
      using T = decltype(type);
      std::vector<BoundRows<T>> rows;
      for (const PageScoreJob& job : jobs) {
        if (job.dtype != dtype) continue;
        rows.push_back({{job.q, job.out},
                        reinterpret_cast<const T*>(job.bounds.low),
                        reinterpret_cast<const T*>(job.bounds.high)});
      }
      score_all_rows(context, scale, rows);
    });
  }
}

}  // namespace turnbench::cuda
