// The register tile of all matrix products: C (+)= A * B with one chain of fused multiply-adds per
// element, in ascending k.  Included once per instruction set.

#if defined(TURNBENCH_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TURNBENCH_MICRO_KERNEL_INL_H_
#undef TURNBENCH_MICRO_KERNEL_INL_H_
#else
#define TURNBENCH_MICRO_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "inference/model/matrix_view.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Vectors per panel and rows per tile: 6 x 4 accumulators fill the 32 registers of AVX-512 and NEON
// (24 + 4 for B + broadcasts), 6 x 2 the 16 registers of AVX2, 2 x 4 those of SSE.
#if HWY_TARGET <= HWY_AVX3
constexpr int kPanelVecs = 4, kTileRows = 6;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kPanelVecs = 2, kTileRows = 6;
#elif HWY_TARGET == HWY_NEON
constexpr int kPanelVecs = 4, kTileRows = 6;
#else
constexpr int kPanelVecs = 4, kTileRows = 2;
#endif

HWY_INLINE FloatVec load_wide(FloatTag d, const float* p) {
  return hn::LoadU(d, p);
}
HWY_INLINE FloatVec load_wide(FloatTag d, const hwy::bfloat16_t* p) {
  const hn::Rebind<hwy::bfloat16_t, FloatTag> half;
  return hn::PromoteTo(d, hn::LoadU(half, p));
}
HWY_INLINE FloatVec load_wide(FloatTag d, const hwy::float16_t* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  return hn::PromoteTo(d, hn::LoadU(half, p));
}

/// Rows of a matrix at a distance of `stride` elements.
template <typename T>
struct StridedRows {
  const T* row;
  std::size_t stride;

  StridedRows from_column(std::size_t column) const { return {row + column, stride}; }
  HWY_INLINE const T* next() {
    const T* out = row;
    row += stride;
    return out;
  }
};

/// Rows at arbitrary addresses.
template <typename T>
struct GatheredRows {
  const T* const* row;
  std::size_t column = 0;

  GatheredRows from_column(std::size_t c) const { return {row, column + c}; }
  HWY_INLINE const T* next() { return *row++ + column; }
};

/// C[r, v] (+)= sum_k A[r, k] * B[k, v].  A: [kRows, k]; B: [k, kVecs vectors]; C: [kRows, kVecs
/// vectors]; lda, ldc: strides in elements.  Sums start from C if `start_from_c`, else from 0.
template <int kRows, int kVecs, typename Rows>
HWY_INLINE void micro_kernel(std::size_t k, const float* HWY_RESTRICT a, std::size_t lda, Rows b,
                             float* HWY_RESTRICT c, std::size_t ldc, bool start_from_c) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec acc[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      acc[r][v] = start_from_c ? hn::LoadU(d, c + r * ldc + v * lanes) : hn::Zero(d);
    }
  }
  for (std::size_t i = 0; i < k; ++i) {
    const auto* HWY_RESTRICT row = b.next();
    if constexpr (kRows < kVecs) {  // keep the shorter of A's column and B's row in registers
      FloatVec x[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] = hn::Set(d, a[r * lda + i]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const FloatVec column = load_wide(d, row + v * lanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r][v] = hn::MulAdd(x[r], column, acc[r][v]);
      }
    } else {
      FloatVec column[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) column[v] = load_wide(d, row + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const FloatVec x = hn::Set(d, a[r * lda + i]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc[r][v] = hn::MulAdd(x, column[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) hn::StoreU(acc[r][v], d, c + r * ldc + v * lanes);
  }
}

/// `micro_kernel` for any number of rows.
template <int kVecs, typename Weight>
HWY_INLINE void column_block(std::size_t rows, std::size_t k, const float* a, std::size_t lda,
                             const Weight* b_data, std::size_t ldb, float* c, std::size_t ldc,
                             bool start_from_c) {
  const StridedRows<Weight> b{b_data, ldb};
  std::size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    micro_kernel<kTileRows, kVecs>(k, a + r * lda, lda, b, c + r * ldc, ldc, start_from_c);
  }
  a += r * lda;
  c += r * ldc;
  switch (rows - r) {
    case 5:
      return micro_kernel<5, kVecs>(k, a, lda, b, c, ldc, start_from_c);
    case 4:
      return micro_kernel<4, kVecs>(k, a, lda, b, c, ldc, start_from_c);
    case 3:
      return micro_kernel<3, kVecs>(k, a, lda, b, c, ldc, start_from_c);
    case 2:
      return micro_kernel<2, kVecs>(k, a, lda, b, c, ldc, start_from_c);
    case 1:
      return micro_kernel<1, kVecs>(k, a, lda, b, c, ldc, start_from_c);
    default:
      return;
  }
}

/// c (+)= a * b.  a: [rows, k]; b: [k, n]; c: [rows, n].  n must be a multiple of 16, the floats of
/// the widest vector.
HWY_INLINE void product(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c,
                        bool start_from_c) {
  const std::int64_t lanes = hn::Lanes(FloatTag());
  std::int64_t j = 0;
  for (; j + kPanelVecs * lanes <= c.columns; j += kPanelVecs * lanes) {
    column_block<kPanelVecs>(c.rows, a.columns, a.data, a.stride, b.data + j, b.stride, c.data + j,
                             c.stride, start_from_c);
  }
  for (; j < c.columns; j += lanes) {
    column_block<1>(c.rows, a.columns, a.data, a.stride, b.data + j, b.stride, c.data + j, c.stride,
                    start_from_c);
  }
}

// Most rows of a register tile of `group_product`, and vectors of a tile with `rows` rows.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kGroupRows = 8;
constexpr std::size_t group_vecs(int rows) {
  return rows > 4 ? 2 : 4;
}
#elif HWY_TARGET <= HWY_AVX2
constexpr int kGroupRows = 6;
constexpr std::size_t group_vecs(int rows) {
  return rows > 4 ? 2 : rows == 4 ? 3 : 4;
}
#else
constexpr int kGroupRows = kTileRows;
constexpr std::size_t group_vecs(int) {
  return kPanelVecs;
}
#endif

/// kRows rows of `group_product`.
template <int kRows, typename Rows>
HWY_INLINE void group_rows(MatrixView<const float> a, Rows b, MatrixView<float> c,
                           bool start_from_c) {
  constexpr std::size_t kVecs = group_vecs(kRows);
  const std::size_t lanes = hn::Lanes(FloatTag());
  const std::size_t vecs = c.columns / lanes;
  std::size_t v = 0;
  const auto take = [&](auto count) {
    micro_kernel<kRows, decltype(count)::value>(a.columns, a.data, a.stride,
                                                b.from_column(v * lanes), c.data + v * lanes,
                                                c.stride, start_from_c);
    v += decltype(count)::value;
  };
  // A tile of one vector would stall on its own sums, so four vectors are split into two and two,
  // not three and one.
  while (vecs - v >= kVecs && (kVecs != 3 || vecs - v != 4)) {
    take(std::integral_constant<int, kVecs>());
  }
  while (vecs - v >= 2) take(std::integral_constant<int, 2>());
  if (v < vecs) take(std::integral_constant<int, 1>());
}

/// Calls body(std::integral_constant<int, n>()) for n in [1, kMax].
template <int kMax, typename Body>
HWY_INLINE void with_constant(int n, const Body& body) {
  if (n == kMax) {
    body(std::integral_constant<int, kMax>());
  } else if constexpr (kMax > 1) {
    with_constant<kMax - 1>(n, body);
  }
}

/// `product` for the query heads of one group, with the same chains.  The rows of `a` are divided
/// evenly among register tiles that have enough sums to hide the latency of a multiply-add.  b:
/// [a.columns, c.columns], as StridedRows or GatheredRows; rows may be read more than once.
template <typename Rows>
HWY_INLINE void group_product(MatrixView<const float> a, Rows b, MatrixView<float> c,
                              bool start_from_c) {
  const int rows = static_cast<int>(c.rows), parts = (rows + kGroupRows - 1) / kGroupRows;
  for (int part = 0, r = 0; part < parts; ++part) {
    const int count = (rows - r) / (parts - part);
    with_constant<kGroupRows>(count, [&](auto n_rows) {
      group_rows<decltype(n_rows)::value>(a.rows_at(r, count), b, c.rows_at(r, count),
                                          start_from_c);
    });
    r += count;
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
