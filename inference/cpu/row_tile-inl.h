// Tiles of 64 rows of keys or other vectors, read in place, transposed, and multiplied by the
// queries of a group.  Included once per instruction set.

#if defined(TURNBENCH_ROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TURNBENCH_ROW_TILE_INL_H_
#undef TURNBENCH_ROW_TILE_INL_H_
#else
#define TURNBENCH_ROW_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

// If false, elements are widened before the products, because the instruction set has few registers
// or no f16 conversion.
constexpr bool kWidensInProducts = HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_NEON;

/// The element type that the products read.
template <typename T>
using Transposed = std::conditional_t<kWidensInProducts, T, float>;

/// out[d, j] = rows[j][d].  rows: 64 rows of head_dim 16-bit elements; out: [head_dim, 64].
template <typename T>
void transpose_halves(const T* const* rows, std::size_t head_dim, std::uint16_t* HWY_RESTRICT out) {
  std::size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  using D = hn::ScalableTag<std::uint16_t>;
  using V = hn::Vec<D>;
  const D d;
  const auto load = [](const T* p) {
    return hn::LoadU(hn::FixedTag<std::uint16_t, 8>(), reinterpret_cast<const std::uint16_t*>(p));
  };
  const auto interleave = [d](const V* x, V* y) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      y[2 * i] = hn::InterleaveLower(d, x[i], x[i + 4]);
      y[2 * i + 1] = hn::InterleaveUpper(d, x[i], x[i + 4]);
    }
  };
  for (; c + 8 <= head_dim; c += 8) {
    for (std::size_t j = 0; j < kTile; j += hn::Lanes(d)) {
      const T* const* from = rows + j;
      V a[8], b[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {  // 128-bit block n is columns [c, c + 8) of row 8 n + i
#if HWY_MAX_BYTES == 64
        const hn::Half<D> half;
        a[i] = hn::Combine(d, hn::Combine(half, load(from[24 + i] + c), load(from[16 + i] + c)),
                           hn::Combine(half, load(from[8 + i] + c), load(from[i] + c)));
#elif HWY_MAX_BYTES == 32
        a[i] = hn::Combine(d, load(from[8 + i] + c), load(from[i] + c));
#else
        a[i] = load(from[i] + c);
#endif
      }
      interleave(a, b);  // three interleaves exchange the three bits of the row and of the column
      interleave(b, a);
      interleave(a, b);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) hn::StoreU(b[i], d, out + (c + i) * kTile + j);
    }
  }
#endif  // HWY_TARGET != HWY_SCALAR
  for (; c < head_dim; ++c) {
    for (std::size_t j = 0; j < kTile; ++j) {
      out[c * kTile + j] = reinterpret_cast<const std::uint16_t*>(rows[j])[c];
    }
  }
}

/// Transposes 64 rows of head_dim elements into `memory`, [head_dim, 64], as the products read
/// them.
template <typename T>
inline const Transposed<T>* transpose_rows(const T* const* rows, std::size_t head_dim,
                                           float* memory) {
  if constexpr (std::is_same_v<Transposed<T>, float>) {
    transpose_keys(rows, head_dim, memory);
    return memory;
  } else {
    transpose_halves(rows, head_dim, reinterpret_cast<std::uint16_t*>(memory));
    return reinterpret_cast<const T*>(memory);
  }
}

constexpr std::size_t kLineBytes = 64;

/// Prefetches rows of memory into the second-level cache.
HWY_INLINE void prefetch_line(const char* at) {
  __builtin_prefetch(at, 0, 2);
}

/// Rows of a product's second matrix that advance a prefetcher by one step per row read.
/// Prefetching a few lines at a time during the products keeps the memory busy without stalls.
template <typename Rows, typename Prefetcher>
struct PrefetchingRows {
  Rows rows;
  Prefetcher* prefetcher;

  PrefetchingRows from_column(std::size_t column) const {
    return {rows.from_column(column), prefetcher};
  }
  HWY_INLINE auto next() {
    prefetcher->step();
    return rows.next();
  }
};

/// Prefetches 64 rows of T in as many steps as a row has elements: sizeof(T) lines at a time.
template <typename T>
class RowsAhead {
 public:
  RowsAhead() = default;  ///< nothing is prefetched
  RowsAhead(const T* begin, const T* end)
      : at_(reinterpret_cast<const char*>(begin)), end_(reinterpret_cast<const char*>(end)) {}

  HWY_INLINE void step() {
    for (std::size_t i = 0; i < sizeof(T) && at_ < end_; ++i, at_ += kLineBytes) prefetch_line(at_);
  }

 private:
  const char *at_ = nullptr, *end_ = nullptr;
};

/// s[h, j] = a[h] . rows[j], or if `add` s[h, j] += that: one chain of multiply-adds over the
/// elements in order.  s: [heads, padded number of rows]; rows: 64; memory: scratch [a.columns,
/// 64]; ahead: rows to prefetch meanwhile.
template <typename T>
HWY_NOINLINE void row_products(MatrixView<const float> a, const T* const* rows, float* memory,
                               MatrixView<float> s, bool add, RowsAhead<T> ahead = {}) {
  using Rows = StridedRows<Transposed<T>>;
  const auto* transposed = transpose_rows(rows, static_cast<std::size_t>(a.columns), memory);
  group_product(a, PrefetchingRows<Rows, RowsAhead<T>>{Rows{transposed, kTile}, &ahead}, s, add);
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
