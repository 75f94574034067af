#include "inference/cpu/bf16_product.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/bf16_product.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/amx.h"
#include "inference/cpu/bf16_dot.h"
#include "inference/cpu/micro_kernel-inl.h"
#include "inference/model/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

using BitsTag = hn::Rebind<std::uint32_t, FloatTag>;

// Rows and vectors of a register tile: two sums per element, and the even and odd weights of one
// vector.  A few rows use more vectors, for enough independent chains.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kPairRows = 6;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kPairRows = 3;
#else
constexpr int kPairRows = 2;
#endif
constexpr int kPairVecs = 2, kSingleRowVecs = 4;
// Prefetch distance of a single row's product, in pairs of inputs.
constexpr std::int64_t kPairsAhead = 32;
// The minimal number of rows for which widening the weights once pays off, and the rows of a tile
// of widened weights: with one sum per element at a time, it has twice the rows and reads half as
// many bytes of weights per multiply-add.
constexpr std::int64_t kWidenPairRows = 24;
constexpr int kWideRows = 2 * kPairRows;
constexpr std::int64_t kBlockPairs = kBlockInputs / 2;

/// The weights of an even and an odd input.
struct EvenOdd {
  FloatVec even, odd;
};

/// Weights of consecutive outputs as they are stored.
struct StoredPairs {
  const std::uint32_t* pairs;  ///< of the first output
  std::int64_t panel_pairs;    ///< pairs of inputs per panel

  HWY_INLINE EvenOdd load(std::int64_t pair, std::int64_t column) const {
    const FloatTag d;
    const BitsTag bits;
    const auto both = hn::LoadU(bits, address(pair, column));
    return {hn::BitCast(d, hn::ShiftLeft<16>(both)),
            hn::BitCast(d, hn::And(both, hn::Set(bits, 0xFFFF0000U)))};
  }
  HWY_INLINE const std::uint32_t* address(std::int64_t pair, std::int64_t column) const {
    return pairs + (column / kPanelOutputs * panel_pairs + pair) * kPanelOutputs +
           column % kPanelOutputs;
  }
};

/// c (+)= even + odd, the sums of one block of inputs.  c: [kRows, kVecs vectors]; ldc: stride.
template <int kRows, int kVecs>
HWY_INLINE void add_block(const FloatVec (&even)[kRows][kVecs], const FloatVec (&odd)[kRows][kVecs],
                          float* HWY_RESTRICT c, std::int64_t ldc, bool start_from_c) {
  const FloatTag d;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      float* to = c + r * ldc + v * HWY_LANES(float);
      const FloatVec before = start_from_c ? hn::LoadU(d, to) : hn::Zero(d);
      hn::StoreU(hn::Add(before, hn::Add(even[r][v], odd[r][v])), d, to);
    }
  }
}

/// c (+)= a * w for `blocks` blocks of 32 inputs.  a: [kRows, inputs]; c: [kRows, kVecs vectors];
/// lda, ldc: strides in floats.
template <int kRows, int kVecs>
HWY_INLINE void pair_kernel(std::int64_t blocks, const float* HWY_RESTRICT a, std::int64_t lda,
                            StoredPairs w, float* HWY_RESTRICT c, std::int64_t ldc,
                            bool start_from_c) {
  const FloatTag d;
  constexpr std::int64_t lanes = HWY_LANES(float);
  for (std::int64_t b = 0; b < blocks; ++b) {
    FloatVec even[kRows][kVecs], odd[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) even[r][v] = odd[r][v] = hn::Zero(d);
    }
    for (std::int64_t pair = b * kBlockPairs; pair < (b + 1) * kBlockPairs; ++pair) {
      if constexpr (kVecs == kSingleRowVecs) {
        for (std::int64_t column = 0; column < kVecs * lanes; column += kPanelOutputs)
          __builtin_prefetch(w.address(pair + kPairsAhead, column));
      }
      EvenOdd weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) weights[v] = w.load(pair, v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const FloatVec first = hn::Set(d, a[r * lda + 2 * pair]),
                       second = hn::Set(d, a[r * lda + 2 * pair + 1]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) {
          even[r][v] = hn::MulAdd(first, weights[v].even, even[r][v]);
          odd[r][v] = hn::MulAdd(second, weights[v].odd, odd[r][v]);
        }
      }
    }
    add_block(even, odd, c, ldc, start_from_c || b > 0);
  }
}

/// `pair_kernel` for any number of rows.
template <int kVecs>
HWY_INLINE void all_rows(std::int64_t rows, std::int64_t blocks, const float* a, std::int64_t lda,
                         StoredPairs w, float* c, std::int64_t ldc, bool start_from_c) {
  for (std::int64_t r = 0; r < rows; r += kPairRows) {
    with_constant<kPairRows>(static_cast<int>(std::min<std::int64_t>(kPairRows, rows - r)),
                             [&](auto n) HWY_ATTR {
                               pair_kernel<decltype(n)::value, kVecs>(
                                   blocks, a + r * lda, lda, w, c + r * ldc, ldc, start_from_c);
                             });
  }
}

/// Weights of kPairVecs vectors of outputs as floats: [blocks][even, odd inputs][pairs][outputs].
struct WideBlocks {
  float* weights;
  static constexpr std::int64_t kWidth = kPairVecs * HWY_LANES(float);

  /// Widens `blocks` blocks.
  HWY_INLINE void set(std::int64_t blocks, StoredPairs from) const {
    constexpr std::int64_t lanes = HWY_LANES(float);
    for (std::int64_t pair = 0; pair < blocks * kBlockPairs; ++pair) {
      float* even = weights + (pair + pair / kBlockPairs * kBlockPairs) * kWidth;
      float* odd = even + kBlockPairs * kWidth;
#pragma GCC unroll 8
      for (int v = 0; v < kPairVecs; ++v) {
        const EvenOdd both = from.load(pair, v * lanes);
        hn::StoreU(both.even, FloatTag(), even + v * lanes);
        hn::StoreU(both.odd, FloatTag(), odd + v * lanes);
      }
    }
  }
};

/// The sum over every second input of a block, from 0.  a: [kWideRows, inputs], from the first of
/// these inputs on; w: [pairs, kPairVecs vectors].
HWY_INLINE void wide_chain(const float* HWY_RESTRICT a, std::int64_t lda,
                           const float* HWY_RESTRICT w, FloatVec (&sum)[kWideRows][kPairVecs]) {
  const FloatTag d;
  constexpr std::int64_t lanes = HWY_LANES(float);
#pragma GCC unroll 16
  for (int r = 0; r < kWideRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kPairVecs; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t pair = 0; pair < kBlockPairs; ++pair) {
    FloatVec weights[kPairVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kPairVecs; ++v)
      weights[v] = hn::LoadU(d, w + pair * WideBlocks::kWidth + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < kWideRows; ++r) {
      const FloatVec x = hn::Set(d, a[r * lda + 2 * pair]);
#pragma GCC unroll 8
      for (int v = 0; v < kPairVecs; ++v) sum[r][v] = hn::MulAdd(x, weights[v], sum[r][v]);
    }
  }
}

/// `pair_kernel` for kWideRows rows and widened weights.
HWY_INLINE void wide_kernel(std::int64_t blocks, const float* HWY_RESTRICT a, std::int64_t lda,
                            WideBlocks w, float* HWY_RESTRICT c, std::int64_t ldc,
                            bool start_from_c) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    FloatVec even[kWideRows][kPairVecs], odd[kWideRows][kPairVecs];
    const float* weights = w.weights + b * kBlockInputs * WideBlocks::kWidth;
    wide_chain(a + b * kBlockInputs, lda, weights, even);
    wide_chain(a + b * kBlockInputs + 1, lda, weights + kBlockPairs * WideBlocks::kWidth, odd);
    add_block(even, odd, c, ldc, start_from_c || b > 0);
  }
}

/// One thread's share of a product.
void multiply_pairs(const Bf16Product& t) {
  constexpr std::int64_t lanes = HWY_LANES(float);
  const PairedView& w = t.w;
  const std::int64_t lda = w.blocks() * kBlockInputs;
  const std::int64_t rows = t.y.rows;
  const std::int64_t columns = std::min(t.last_panel * kPanelOutputs, w.out);
  HWY_ALIGN float partial[kBf16RowBlock * kPanelOutputs];
  HWY_ALIGN float widened[kBf16Depth * kBlockInputs * WideBlocks::kWidth];
  const WideBlocks wide{widened};
  for (std::int64_t k0 = 0; k0 < w.blocks(); k0 += kBf16Depth) {
    const std::int64_t depth = std::min(kBf16Depth, w.blocks() - k0);
    const bool from_y = t.add || k0 > 0;
    const float* a = t.x.data + k0 * kBlockInputs;
    const auto stored = [&](std::int64_t column) {
      const auto* panel = reinterpret_cast<const std::uint32_t*>(w.panel(column / kPanelOutputs));
      return StoredPairs{panel + k0 * kBlockPairs * kPanelOutputs + column % kPanelOutputs,
                         w.blocks() * kBlockPairs};
    };
    std::int64_t column = t.first_panel * kPanelOutputs;
    if (rows == 1) {
      for (; column + kSingleRowVecs * lanes <= columns; column += kSingleRowVecs * lanes) {
        pair_kernel<1, kSingleRowVecs>(depth, a, lda, stored(column), t.y.data + column, t.y.stride,
                                       from_y);
      }
    }
    for (; column + WideBlocks::kWidth <= columns; column += WideBlocks::kWidth) {
      const StoredPairs from = stored(column);
      float* y = t.y.data + column;
      std::int64_t r = 0;
      if (rows >= kWidenPairRows) {
        wide.set(depth, from);
        for (; r + kWideRows <= rows; r += kWideRows)
          wide_kernel(depth, a + r * lda, lda, wide, y + r * t.y.stride, t.y.stride, from_y);
      }
      all_rows<kPairVecs>(rows - r, depth, a + r * lda, lda, from, y + r * t.y.stride, t.y.stride,
                          from_y);
    }
    // y has no room for the padding of the last panel.
    for (; column < columns; column += lanes) {
      const std::int64_t count = std::min(lanes, columns - column);
      const MatrixView<float> y = t.y.columns_at(column, count);
      for (std::int64_t r = 0; from_y && r < rows; ++r)
        std::memcpy(partial + r * lanes, y.row(r), count * sizeof(float));
      all_rows<1>(rows, depth, a, lda, stored(column), partial, lanes, from_y);
      for (std::int64_t r = 0; r < rows; ++r)
        std::memcpy(y.row(r), partial + r * lanes, count * sizeof(float));
    }
  }
}

/// Rounds a row to bf16, as floats.  NaN stays NaN.
void round_row(const float* x, std::int64_t n, float* out) {
  const FloatTag d;
  const BitsTag bits;
  constexpr std::int64_t lanes = HWY_LANES(float);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const FloatVec value = hn::LoadU(d, x + i);
    const auto u = hn::BitCast(bits, value);
    const auto even = hn::And(hn::ShiftRight<16>(u), hn::Set(bits, 1));
    const auto up = hn::Add(hn::Add(u, hn::Set(bits, 0x7FFF)), even);
    const FloatVec rounded = hn::BitCast(d, hn::And(up, hn::Set(bits, 0xFFFF0000U)));
    hn::StoreU(hn::IfThenElse(hn::IsNaN(value), value, rounded), d, out + i);
  }
  for (; i < n; ++i) out[i] = bf16_to_float(float_to_bf16(x[i]));
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(multiply_pairs);
HWY_EXPORT(round_row);

namespace {

/// Denormals count as zeros while it exists, as in AMX.
class FlushDenormals {
 public:
#if HWY_ARCH_X86
  FlushDenormals() : before_(__builtin_ia32_stmxcsr()) {
    constexpr unsigned kFlushResults = 0x8000, kZeroOperands = 0x40;
    __builtin_ia32_ldmxcsr(before_ | kFlushResults | kZeroOperands);
  }
  ~FlushDenormals() {
    __builtin_ia32_ldmxcsr(before_);
  }
#elif HWY_ARCH_ARM_A64
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    constexpr std::uint64_t kFlush = 1 << 24;
    asm volatile("msr fpcr, %0" : : "r"(before_ | kFlush));
  }
  ~FlushDenormals() {
    asm volatile("msr fpcr, %0" : : "r"(before_));
  }
#else
#error "no control of denormals for this processor"
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if HWY_ARCH_X86
  unsigned before_;
#else
  std::uint64_t before_;
#endif
};

std::int64_t up_to(std::int64_t n, std::int64_t size) {
  return (n + size - 1) / size * size;
}

}  // namespace

Bf16Unit RoundedRows::unit_for(std::int64_t rows, Bf16Unit wanted) {
  constexpr std::int64_t kLeastTileRows = 7;  // tiles of few rows are bound by their latency
  return wanted == Bf16Unit::kTiles && rows < kLeastTileRows ? Bf16Unit::kMultiplyAdd : wanted;
}

std::int64_t RoundedRows::floats(std::int64_t rows, std::int64_t in, Bf16Unit unit) {
  if (unit == Bf16Unit::kTiles) rows = up_to(rows, amx::kTileRows);
  return rows * RoundedRows{unit, nullptr, in}.stride();
}

std::int64_t RoundedRows::stride() const {
  const std::int64_t width = up_to(in, kBlockInputs);
  return unit == Bf16Unit::kMultiplyAdd ? width : width / 2;
}

void RoundedRows::set(MatrixView<const float> x) const {
  const std::int64_t width = up_to(in, kBlockInputs);
  auto* halves = reinterpret_cast<std::uint16_t*>(data);
  switch (unit) {
    case Bf16Unit::kTiles:
      for (std::int64_t r = 0; r < x.rows; r += amx::kTileRows)
        amx::round_to_tiles(x.rows_at(r, std::min(amx::kTileRows, x.rows - r)), halves + r * width);
      return;
    case Bf16Unit::kDotProduct:
      for (std::int64_t r = 0; r < x.rows; ++r)
        bf16_dot::round_row(x.row(r), in, halves + r * width);
      return;
    case Bf16Unit::kMultiplyAdd:
      for (std::int64_t r = 0; r < x.rows; ++r) {
        round_to_bf16(x.row(r), in, data + r * width);
        std::fill_n(data + r * width + in, width - in, 0.0f);
      }
  }
}

void round_to_bf16(const float* x, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(round_row)(x, n, out);
}

void multiply(const Bf16Product& product) {
  const FlushDenormals flush;
  switch (product.x.unit) {
    case Bf16Unit::kTiles:
      return amx::multiply(product);
    case Bf16Unit::kDotProduct:
      return bf16_dot::multiply(product);
    case Bf16Unit::kMultiplyAdd:
      return HWY_DYNAMIC_DISPATCH(multiply_pairs)(product);
  }
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
