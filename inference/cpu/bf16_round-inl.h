#pragma once

// Rounding to bf16 by AVX-512, for the kernels that are written for one instruction set.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace turnbench::cpu {

/// 16 floats rounded to bf16, in the low halves of the elements.  NaN stays NaN.
__attribute__((target("avx512f"))) inline __m512i round_to_bf16(__m512 value) {
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i cut = _mm512_maskz_srli_epi32(kAll, bits, 16);
  const __m512i even = _mm512_and_si512(cut, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), even);
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_maskz_srli_epi32(kAll, sum, 16), nan, cut,
                              _mm512_set1_epi32(0x40));
}

/// At most 16 floats, of which `left` are left; zeros beyond them.
__attribute__((target("avx512f"))) inline __m512 load_left(const float* from, std::int64_t left) {
  if (left >= 16) return _mm512_loadu_ps(from);
  const auto mask = static_cast<__mmask16>((1U << std::max<std::int64_t>(left, 0)) - 1);
  return _mm512_maskz_loadu_ps(mask, from);
}

}  // namespace turnbench::cpu
