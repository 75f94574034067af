#include "inference/cpu/bf16_linear.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/bf16_linear.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/amx.h"
#include "inference/cpu/bf16_dot.h"
#include "inference/cpu/micro_kernel-inl.h"

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
void multiply_pairs(const Bf16Task& t) {
  constexpr std::int64_t lanes = HWY_LANES(float);
  const PairedMatrix& w = *t.w;
  const std::int64_t rows = t.y.rows;
  const std::int64_t columns = std::min(t.last_panel * kPanelOutputs, w.out);
  HWY_ALIGN float partial[kBf16RowBlock * kPanelOutputs];
  HWY_ALIGN float wide[kBf16Depth * kBlockInputs * WidePairs::kWidth];
  for (std::int64_t k0 = 0; k0 < w.blocks(); k0 += kBf16Depth) {
    const std::int64_t depth = std::min(kBf16Depth, w.blocks() - k0);
    const float* a = t.rounded + k0 * kBlockInputs;
    const auto stored = [&](std::int64_t column) {
      const auto* panel = reinterpret_cast<const std::uint32_t*>(w.panel(column / kPanelOutputs));
      return StoredPairs{panel + k0 * kBlockPairs * kPanelOutputs + column % kPanelOutputs,
                         w.blocks() * kBlockPairs};
    };
    std::int64_t column = t.first_panel * kPanelOutputs;
    if (rows == 1) {
      for (; column + kSingleRowVecs * lanes <= columns; column += kSingleRowVecs * lanes) {
        pair_kernel<1, kSingleRowVecs>(depth, a, t.ld_rounded, stored(column), t.y.data + column,
                                       t.y.stride, k0 > 0);
      }
    }
    for (; column + WidePairs::kWidth <= columns; column += WidePairs::kWidth) {
      const StoredPairs from = stored(column);
      float* y = t.y.data + column;
      if (rows < kWidenPairRows) {
        all_rows<kPairVecs>(rows, depth, a, t.ld_rounded, from, y, t.y.stride, k0 > 0);
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
      all_rows<kPairVecs>(rows, depth, a, t.ld_rounded, WidePairs{wide}, y, t.y.stride, k0 > 0);
    }
    // y has no room for the padding of the last panel.
    for (; column < columns; column += lanes) {
      const std::int64_t count = std::min(lanes, columns - column);
      const MatrixView<float> y = t.y.columns_at(column, count);
      for (std::int64_t r = 0; k0 > 0 && r < rows; ++r)
        std::memcpy(partial + r * lanes, y.row(r), count * sizeof(float));
      all_rows<1>(rows, depth, a, t.ld_rounded, stored(column), partial, lanes, k0 > 0);
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

/// y += bias.
void add_bias(const float* bias, std::int64_t first, std::int64_t last, MatrixView<float> y) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t o = first; o < last; ++o) y(r, o) += bias[o];
  }
}

constexpr std::int64_t kRoundedRows = 16;  // that a task rounds

/// Calls body(first, count) for parts of x's rows, in parallel.
template <typename Body>
void for_parts(ThreadPool& pool, std::int64_t rows, std::int64_t part, const Body& body) {
  pool.parallel_for((rows + part - 1) / part, [&](std::size_t task, int) {
    const std::int64_t first = static_cast<std::int64_t>(task) * part;
    body(first, std::min(part, rows - first));
  });
}

/// Calls multiply(row, first_panel, last_panel, part of y) for parts of the product, in parallel,
/// and adds the bias to them.
template <typename Multiply>
void for_shares(ThreadPool& pool, const PairedMatrix& w, const float* bias, MatrixView<float> y,
                const Multiply& multiply) {
  const std::int64_t row_blocks = (y.rows + kBf16RowBlock - 1) / kBf16RowBlock;
  // About four tasks per thread balance the load; groups are even, for kernels of two panels.
  const std::int64_t wanted = std::max<std::int64_t>(1, 4 * pool.size() / row_blocks);
  constexpr std::int64_t kLeast = 4;
  std::int64_t group = pool.size() == 1 ? w.panels() : (w.panels() + wanted - 1) / wanted;
  group = std::max(kLeast, (group + kLeast - 1) / kLeast * kLeast);
  const std::int64_t groups = (w.panels() + group - 1) / group;
  pool.parallel_for(row_blocks * groups, [&](std::size_t task, int) {
    const std::int64_t row = static_cast<std::int64_t>(task) / groups * kBf16RowBlock,
                       first = static_cast<std::int64_t>(task) % groups * group,
                       last = std::min(first + group, w.panels());
    const MatrixView<float> part = y.rows_at(row, std::min(kBf16RowBlock, y.rows - row));
    const FlushDenormals flush;
    multiply(row, first, last, part);
    add_bias(bias, first * kPanelOutputs, std::min(last * kPanelOutputs, w.out), part);
  });
}

void linear_by_tiles(ThreadPool& pool, MatrixView<const float> x, const PairedMatrix& w,
                     const float* bias, MatrixView<float> y, Scratch& rounded) {
  const std::int64_t width = w.blocks() * kBlockInputs;
  const std::int64_t tile_rows = (x.rows + amx::kTileRows - 1) / amx::kTileRows;
  auto* tiles =
      reinterpret_cast<std::uint16_t*>(rounded.get((tile_rows * amx::kTileRows * width + 1) / 2));
  for_parts(pool, x.rows, amx::kTileRows, [&](std::int64_t first, std::int64_t count) {
    amx::round_to_tiles(x.rows_at(first, count), tiles + first * width);
  });
  for_shares(pool, w, bias, y,
             [&](std::int64_t row, std::int64_t first, std::int64_t last, MatrixView<float> part) {
               amx::multiply({tiles + row * width, &w, first, last, part});
             });
}

void linear_by_multiply_adds(ThreadPool& pool, MatrixView<const float> x, const PairedMatrix& w,
                             const float* bias, MatrixView<float> y, Scratch& rounded) {
  const std::int64_t width = w.blocks() * kBlockInputs;
  float* wide = rounded.get(x.rows * width);
  for_parts(pool, x.rows, kRoundedRows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      HWY_DYNAMIC_DISPATCH(round_row)(x.row(r), w.in, wide + r * width);
      std::fill_n(wide + r * width + w.in, width - w.in, 0.0f);
    }
  });
  for_shares(pool, w, bias, y,
             [&](std::int64_t row, std::int64_t first, std::int64_t last, MatrixView<float> part) {
               HWY_DYNAMIC_DISPATCH(multiply_pairs)
               ({wide + row * width, width, &w, first, last, part});
             });
}

void linear_by_dot_products(ThreadPool& pool, MatrixView<const float> x, const PairedMatrix& w,
                            const float* bias, MatrixView<float> y, Scratch& rounded) {
  const std::int64_t width = w.blocks() * kBlockInputs;
  auto* halves = reinterpret_cast<std::uint16_t*>(rounded.get((x.rows * width + 1) / 2));
  for_parts(pool, x.rows, kRoundedRows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r)
      bf16_dot::round_row(x.row(r), w.in, halves + r * width);
  });
  for_shares(pool, w, bias, y,
             [&](std::int64_t row, std::int64_t first, std::int64_t last, MatrixView<float> part) {
               bf16_dot::multiply({halves + row * width, &w, first, last, part});
             });
}

}  // namespace

PairedMatrix make_paired(std::int64_t out, std::int64_t in) {
  PairedMatrix m{.out = out, .in = in, .data = {}};
  m.data = Buffer(m.panels() * m.panel_size() * sizeof(std::uint16_t));
  if (m.data.size() > 0) std::memset(m.data.data(), 0, m.data.size());
  return m;
}

void pack_rows(PairedMatrix& m, std::int64_t first, const void* source, DType dtype,
               std::int64_t rows) {
  auto* to = m.data.as<std::uint16_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t base = m.index(first + r, 0);
    for (std::int64_t i = 0; i < m.in; ++i) {
      const std::int64_t at = base + i / 2 * kPanelOutputs * 2 + i % 2, element = r * m.in + i;
      to[at] = dtype == DType::kBF16 ? static_cast<const std::uint16_t*>(source)[element]
                                     : float_to_bf16(load_element(source, dtype, element));
    }
  }
}

std::int64_t rounded_floats(std::int64_t rows, std::int64_t in, Bf16Unit unit) {
  const auto up_to = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size * size; };
  const std::int64_t width = up_to(in, kBlockInputs);
  if (unit == Bf16Unit::kMultiplyAdd) return rows * width;
  return up_to(rows, amx::kTileRows) * width / 2;  // half a float per element
}

void linear_bf16(ThreadPool& pool, MatrixView<const float> x, const PairedMatrix& w,
                 const float* bias, MatrixView<float> y, Scratch& rounded, Bf16Unit unit) {
  assert(x.columns == w.in && y.columns == w.out && x.rows == y.rows);
  if (x.rows == 0 || w.out == 0) return;
  // Tiles of few rows are bound by their latency.
  constexpr std::int64_t kLeastTileRows = 7;
  if (unit == Bf16Unit::kTiles && x.rows >= kLeastTileRows) {
    linear_by_tiles(pool, x, w, bias, y, rounded);
  } else if (unit == Bf16Unit::kDotProduct) {
    linear_by_dot_products(pool, x, w, bias, y, rounded);
  } else {
    linear_by_multiply_adds(pool, x, w, bias, y, rounded);
  }
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
