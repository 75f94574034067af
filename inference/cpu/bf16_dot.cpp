#include "inference/cpu/bf16_dot.h"

#include "inference/cpu/bf16_product.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "inference/cpu/bf16_round-inl.h"

#define TURNBENCH_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace turnbench::cpu::bf16_dot {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr __mmask16 kAll = 0xFFFF;                 // lanes
constexpr std::int64_t kQuads = kBlockInputs / 4;  // groups of four inputs per block
// Rows and panels of a register tile: two sums per element.  A single row uses more panels, for
// enough independent chains.
constexpr int kRowsAtOnce = 6, kPanelsAtOnce = 2, kPanelsOfOneRow = 4;
// Prefetch distance of a single row's product, in groups of four inputs.
constexpr std::int64_t kQuadsAhead = 16;
// The minimal number of rows for which rearranging the weights once pays off.
constexpr std::int64_t kRearrangeRows = 13;

/// Weights of 16 outputs for one step of both chains: [output][2, 0] and [output][3, 1].
struct EvenOdd {
  __m512i even, odd;
};

/// Weights of consecutive panels as they are stored.
struct Stored {
  const std::uint16_t* first;  ///< the first block of the first panel
  std::int64_t panel_size;

  const std::uint16_t* address(std::int64_t quad, int panel) const {
    return first + panel * panel_size + quad * 4 * kPanelOutputs;
  }
  TURNBENCH_DOT EvenOdd load(std::int64_t quad, int panel) const {
    constexpr __mmask32 kLowHalves = 0x55555555;
    const std::uint16_t* from = address(quad, panel);
    const __m512i first_pair = _mm512_loadu_si512(from),
                  second_pair = _mm512_loadu_si512(from + 2 * kPanelOutputs);
    return {_mm512_mask_blend_epi16(kLowHalves, _mm512_maskz_slli_epi32(kAll, first_pair, 16),
                                    second_pair),
            _mm512_mask_blend_epi16(kLowHalves, first_pair,
                                    _mm512_maskz_srli_epi32(kAll, second_pair, 16))};
  }
};

/// Weights of kPanelsAtOnce panels in the order of their use: [quad][panel][even, odd][output][2].
struct Rearranged {
  const std::uint16_t* weights;
  static constexpr std::int64_t kStep = 4 * kPanelOutputs;  ///< elements per quad and panel

  TURNBENCH_DOT EvenOdd load(std::int64_t quad, int panel) const {
    const std::uint16_t* from = weights + (quad * kPanelsAtOnce + panel) * kStep;
    return {_mm512_load_si512(from), _mm512_load_si512(from + kStep / 2)};
  }
};

/// c (+)= a * w for `blocks` blocks of 32 inputs.  a: [kRows, 2 words per quad]; c: [kRows, kVecs
/// panels], whose last panel has the columns of `last`; lda, ldc: strides in words and floats.
template <int kRows, int kVecs, typename Weights>
TURNBENCH_DOT inline void dot_kernel(std::int64_t blocks, const std::int32_t* a, std::int64_t lda,
                                     Weights w, float* c, std::int64_t ldc, __mmask16 last,
                                     bool start_from_c) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m512 even[kRows][kVecs], odd[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) even[r][v] = odd[r][v] = _mm512_setzero_ps();
    }
    for (std::int64_t quad = b * kQuads; quad < (b + 1) * kQuads; ++quad) {
      EvenOdd weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        if constexpr (kVecs == kPanelsOfOneRow) {
          const std::uint16_t* ahead = w.address(quad + kQuadsAhead, v);
          __builtin_prefetch(ahead);
          __builtin_prefetch(ahead + 2 * kPanelOutputs);
        }
        weights[v] = w.load(quad, v);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto x_even = reinterpret_cast<__m512bh>(_mm512_set1_epi32(a[r * lda + 2 * quad])),
                   x_odd = reinterpret_cast<__m512bh>(_mm512_set1_epi32(a[r * lda + 2 * quad + 1]));
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) {
          even[r][v] =
              _mm512_dpbf16_ps(even[r][v], x_even, reinterpret_cast<__m512bh>(weights[v].even));
          odd[r][v] =
              _mm512_dpbf16_ps(odd[r][v], x_odd, reinterpret_cast<__m512bh>(weights[v].odd));
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const __mmask16 columns = v + 1 < kVecs ? kAll : last;
        float* to = c + r * ldc + v * kLanes;
        const __m512 before =
            start_from_c || b > 0 ? _mm512_maskz_loadu_ps(columns, to) : _mm512_setzero_ps();
        _mm512_mask_storeu_ps(to, columns,
                              _mm512_add_ps(before, _mm512_add_ps(even[r][v], odd[r][v])));
      }
    }
  }
}

/// `dot_kernel` for any number of rows.
template <int kVecs, typename Weights>
TURNBENCH_DOT void all_rows(std::int64_t rows, std::int64_t blocks, const std::int32_t* a,
                            std::int64_t lda, Weights w, float* c, std::int64_t ldc, __mmask16 last,
                            bool start_from_c) {
  static constexpr std::array kKernels = {
      dot_kernel<1, kVecs, Weights>, dot_kernel<2, kVecs, Weights>, dot_kernel<3, kVecs, Weights>,
      dot_kernel<4, kVecs, Weights>, dot_kernel<5, kVecs, Weights>, dot_kernel<6, kVecs, Weights>};
  static_assert(kKernels.size() == kRowsAtOnce);
  for (std::int64_t r = 0; r < rows; r += kRowsAtOnce) {
    kKernels[std::min<std::int64_t>(kRowsAtOnce, rows - r) - 1](
        blocks, a + r * lda, lda, w, c + r * ldc, ldc, last, start_from_c);
  }
}

/// The columns of a panel of which `left` are left.
__mmask16 columns_left(std::int64_t left) {
  return left >= kPanelOutputs ? kAll : static_cast<__mmask16>((1U << left) - 1);
}

}  // namespace

bool available() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
}

bool is_fast() {
  return __builtin_cpu_is("amd") != 0;
}

TURNBENCH_DOT void round_row(const float* x, std::int64_t n, std::uint16_t* out) {
  // Of each four inputs: [2, 0, 3, 1].
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
  const std::int64_t width = (n + kBlockInputs - 1) / kBlockInputs * kBlockInputs;
  for (std::int64_t i = 0; i < width; i += kLanes) {
    const __m256i rounded =
        _mm512_maskz_cvtepi32_epi16(kAll, round_to_bf16(load_left(x + i, n - i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_shuffle_epi8(rounded, order));
  }
}

TURNBENCH_DOT void multiply(const Bf16Product& t) {
  const PairedView& w = t.w;
  const std::int64_t rows = t.y.rows;
  const std::int64_t lda = w.blocks() * kBlockInputs / 2;
  alignas(64) std::uint16_t rearranged[kBf16Depth * kQuads * kPanelsAtOnce * Rearranged::kStep];
  for (std::int64_t k0 = 0; k0 < w.blocks(); k0 += kBf16Depth) {
    const std::int64_t depth = std::min(kBf16Depth, w.blocks() - k0);
    const auto* a = reinterpret_cast<const std::int32_t*>(t.x.data) + k0 * kBlockInputs / 2;
    const bool start_from_y = t.add || k0 > 0;
    std::int64_t p = t.first_panel;
    while (p < t.last_panel) {
      const std::int64_t left = t.last_panel - p;
      const Stored stored{w.panel(p) + k0 * kBlockInputs * kPanelOutputs, w.panel_size()};
      float* y = t.y.data + p * kPanelOutputs;
      const auto last_of = [&](std::int64_t panels) {
        return columns_left(w.out - (p + panels - 1) * kPanelOutputs);
      };
      if (rows == 1 && left >= kPanelsOfOneRow) {
        dot_kernel<1, kPanelsOfOneRow>(depth, a, lda, stored, y, t.y.stride,
                                       last_of(kPanelsOfOneRow), start_from_y);
        p += kPanelsOfOneRow;
      } else if (left < kPanelsAtOnce) {
        all_rows<1>(rows, depth, a, lda, stored, y, t.y.stride, last_of(1), start_from_y);
        ++p;
      } else if (rows < kRearrangeRows) {
        all_rows<kPanelsAtOnce>(rows, depth, a, lda, stored, y, t.y.stride, last_of(kPanelsAtOnce),
                                start_from_y);
        p += kPanelsAtOnce;
      } else {
        std::uint16_t* to = rearranged;
        for (std::int64_t quad = 0; quad < depth * kQuads; ++quad) {
          for (int v = 0; v < kPanelsAtOnce; ++v, to += Rearranged::kStep) {
            const EvenOdd weights = stored.load(quad, v);
            _mm512_store_si512(to, weights.even);
            _mm512_store_si512(to + Rearranged::kStep / 2, weights.odd);
          }
        }
        all_rows<kPanelsAtOnce>(rows, depth, a, lda, Rearranged{rearranged}, y, t.y.stride,
                                last_of(kPanelsAtOnce), start_from_y);
        p += kPanelsAtOnce;
      }
    }
  }
}

TURNBENCH_DOT double multiply_registers(std::size_t rounds, float* out) {
  constexpr int kChains = 12;  // enough to hide the latency
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  const auto factors = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3C003C00));
  for (std::size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factors, factors);
  }
  __m512 total = sums[0];
  for (const __m512& sum : sums) total = _mm512_add_ps(total, sum);
  float lanes[kLanes];
  _mm512_storeu_ps(lanes, total);
  *out = lanes[0];
  return 2.0 * 2 * kLanes * kChains * static_cast<double>(rounds);
}

}  // namespace turnbench::cpu::bf16_dot

#else

namespace turnbench::cpu::bf16_dot {

bool available() {
  return false;
}
bool is_fast() {
  return false;
}
void round_row(const float*, std::int64_t, std::uint16_t*) {}
void multiply(const Bf16Product&) {}
double multiply_registers(std::size_t, float*) {
  return 0;
}

}  // namespace turnbench::cpu::bf16_dot

#endif
