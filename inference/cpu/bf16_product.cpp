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
// The minimal number of rows for which widening the weights once pays off.
constexpr std::int64_t kWidenPairRows = 24;
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

/// Weights of kPairVecs vectors of outputs as floats: [pairs][even, odd][outputs].
struct WidePairs {
  const float* weights;
  static constexpr std::int64_t kWidth = kPairVecs * HWY_LANES(float);

  HWY_INLINE EvenOdd load(std::int64_t pair, std::int64_t column) const {
    const float* even = weights + pair * 2 * kWidth + column;
    return {hn::LoadU(FloatTag(), even), hn::LoadU(FloatTag(), even + kWidth)};
  }
};

/// c (+)= a * w for `blocks` blocks of 32 inputs.  a: [kRows, inputs]; w: StoredPairs or WidePairs;
/// c: [kRows, kVecs vectors]; lda, ldc: strides in floats.
template <int kRows, int kVecs, typename Weights>
HWY_INLINE void pair_kernel(std::int64_t blocks, const float* HWY_RESTRICT a, std::int64_t lda,
                            Weights w, float* HWY_RESTRICT c, std::int64_t ldc, bool start_from_c) {
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
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        float* to = c + r * ldc + v * lanes;
        const FloatVec before = start_from_c || b > 0 ? hn::LoadU(d, to) : hn::Zero(d);
        hn::StoreU(hn::Add(before, hn::Add(even[r][v], odd[r][v])), d, to);
      }
    }
  }
}

/// `pair_kernel` for any number of rows.
template <int kVecs, typename Weights>
HWY_INLINE void all_rows(std::int64_t rows, std::int64_t blocks, const float* a, std::int64_t lda,
                         Weights w, float* c, std::int64_t ldc, bool start_from_c) {
  for (std::int64_t r = 0; r < rows; r += kPairRows) {
    with_constant<kPairRows>(static_cast<int>(std::min<std::int64_t>(kPairRows, rows - r)),
                             [&](auto n) HWY_ATTR {
                               pair_kernel<decltype(n)::value, kVecs>(
                                   blocks, a + r * lda, lda, w, c + r * ldc, ldc, start_from_c);
                             });
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
  HWY_ALIGN float wide[kBf16Depth * kBlockInputs * WidePairs::kWidth];
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
    for (; column + WidePairs::kWidth <= columns; column += WidePairs::kWidth) {
      const StoredPairs from = stored(column);
      float* y = t.y.data + column;
      if (rows < kWidenPairRows) {
        all_rows<kPairVecs>(rows, depth, a, lda, from, y, t.y.stride, from_y);
        continue;
      }
      for (std::int64_t pair = 0; pair < depth * kBlockPairs; ++pair) {
        float* to = wide + pair * 2 * WidePairs::kWidth;
#pragma GCC unroll 8
        for (int v = 0; v < kPairVecs; ++v) {
          const EvenOdd weights = from.load(pair, v * lanes);
          hn::StoreU(weights.even, FloatTag(), to + v * lanes);
          hn::StoreU(weights.odd, FloatTag(), to + WidePairs::kWidth + v * lanes);
        }
      }
      all_rows<kPairVecs>(rows, depth, a, lda, WidePairs{wide}, y, t.y.stride, from_y);
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
