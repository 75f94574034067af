#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/page_bounds.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The bits of floats of 16 or 32 bits as integers in the same order, and back.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ordered(D d, V bits) {
  constexpr auto kSign = std::numeric_limits<hn::TFromD<D>>::min();
  return hn::Xor(bits, hn::AndNot(hn::Set(d, kSign), hn::BroadcastSignBit(bits)));
}

/// Minimum and maximum over `rows` rows of the elements [at, at + lanes).
template <class D, typename T>
HWY_INLINE void bounds_of(D d, const T* const* rows, int count, std::int64_t at, T* low, T* high) {
  auto least = ordered(d, hn::LoadU(d, rows[0] + at)), greatest = least;
  for (int r = 1; r < count; ++r) {
    const auto x = ordered(d, hn::LoadU(d, rows[r] + at));
    least = hn::Min(least, x);
    greatest = hn::Max(greatest, x);
  }
  hn::StoreU(ordered(d, least), d, low + at);
  hn::StoreU(ordered(d, greatest), d, high + at);
}

/// T: an integer type of the element size.
template <typename T>
void bound_pages_typed(const PageBoundsJob& job, const Piece& piece) {
  const KvHeadCache& set = *job.set;
  const std::int64_t dim = set.layout().head_dim;
  const auto pages = set.pages();
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = hn::Lanes(d);
  const std::int64_t stride = job.bounds.column_stride;  // 0: the bounds are not transposed
  std::vector<T> page(static_cast<std::size_t>(stride == 0 ? 0 : 2 * dim));
  std::vector<const T*> rows;
  for (std::int64_t p = piece.first; p < piece.first + piece.count; ++p) {
    const int first = static_cast<int>(p) * job.bounds.page_tokens;
    const int count = std::min(job.bounds.page_tokens, set.size() - first);
    rows.clear();
    for (int slot = first; slot < first + count; ++slot) {
      rows.push_back(reinterpret_cast<const T*>(pages[slot / kPageTokens]->data) +
                     slot % kPageTokens * dim);
    }
    const std::int64_t index = p - job.first_page;
    T *lows = reinterpret_cast<T*>(job.bounds.low), *highs = reinterpret_cast<T*>(job.bounds.high);
    T* low = stride == 0 ? lows + index * dim : page.data();
    T* high = stride == 0 ? highs + index * dim : page.data() + dim;
    std::int64_t at = 0;
    for (; at + lanes <= dim; at += lanes) bounds_of(d, rows.data(), count, at, low, high);
    for (; at < dim; ++at) bounds_of(hn::CappedTag<T, 1>(), rows.data(), count, at, low, high);
    for (std::int64_t i = 0; stride != 0 && i < dim; ++i) {
      lows[i * stride + index] = low[i];
      highs[i * stride + index] = high[i];
    }
  }
}

void bound_pages(const PageBoundsJob& job, const Piece& piece) {
  if (job.set->layout().dtype == DType::kF32) {
    bound_pages_typed<std::int32_t>(job, piece);
  } else {
    bound_pages_typed<std::int16_t>(job, piece);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(bound_pages);

void update_page_bounds(ThreadPool& pool, std::span<const PageBoundsJob> jobs) {
  constexpr std::int64_t kPages = 128;
  const auto pieces = pieces_of(
      jobs, kPages, [](const PageBoundsJob& job) { return job.first / job.bounds.page_tokens; },
      [](const PageBoundsJob& job) {
        const int tokens = job.bounds.page_tokens, size = job.set->size();
        return job.first < size ? (size + tokens - 1) / tokens : 0;
      });
  pool.parallel_for(pieces.size(), [&](std::size_t t, int) {
    HWY_DYNAMIC_DISPATCH(bound_pages)(jobs[pieces[t].job], pieces[t]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
