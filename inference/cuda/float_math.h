#pragma once

// Logarithm, exponential and random numbers of the attention statistics.  They execute the same
// operations as those of inference/cpu/simd_math-inl.h and column_sums.cpp, so that equal scores
// give equal weights, to the bit.

#include <bit>
#include <cstdint>

#include "inference/cuda/device.h"

namespace turnbench::cuda {

/// e^x for x <= 88, with an error of about 2 ulp; exactly 0 below -87.  Range reduction by ln 2 in
/// two parts, then a polynomial of degree 6 with the coefficients of the Cephes library's expf.
__device__ inline float exp_of(float x) {
  if (x < -87.0f) return 0;
  // The addition of 1.5 * 2^23 rounds to an integer, because the last bit of the sum is worth 1.
  const float shifted = __fmul_rn(x, 1.44269504088896341f) + 12582912.0f, n = shifted - 12582912.0f;
  float r = fmaf(-n, 0.693359375f, x);
  r = fmaf(-n, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  p = fmaf(p * r, r, r) + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127) << 23);
}

/// -ln x for normal x > 0, with a relative error of about 8e-6: x = m 2^k with m in [2/3, 4/3),
/// then a minimax polynomial of degree 5 for ln(m) / (m - 1).
__device__ inline float negative_log(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t k = (bits - 0x3F2AAAAB) >> 23;
  const float r = std::bit_cast<float>(bits - k * (1 << 23)) - 1.0f;
  float p = -1.934982919e-1f;
  p = fmaf(p, r, 2.264650978e-1f);
  p = fmaf(p, r, -2.484969193e-1f);
  p = fmaf(p, r, 3.321920368e-1f);
  p = fmaf(p, r, -5.000201946e-1f);
  p = fmaf(p, r, 1.000007165f);
  return fmaf(-static_cast<float>(k), 0.693147181f, -(p * r));
}

/// Two hashes of a key's position; `second` is even.
struct KeyHash {
  std::uint32_t first, second;
};

/// The 32-bit finalizer of MurmurHash3, a bijection.
__device__ inline std::uint32_t murmur3_finalizer(std::uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

__device__ inline KeyHash hash_of(std::int32_t position) {
  const auto bits = static_cast<std::uint32_t>(position);
  return {murmur3_finalizer(bits), murmur3_finalizer(~bits) & ~1u};
}

/// A random number of the exponential distribution for a row and a key: -ln u, with u in (0, 1)
/// from the upper bits of a product.  Each factor combines a hash of the key with one half of the
/// row's seed; the second is odd.
__device__ inline float exponential_variate(std::uint64_t seed, KeyHash key) {
  const std::uint32_t h = (key.first ^ static_cast<std::uint32_t>(seed)) *
                          (key.second + (static_cast<std::uint32_t>(seed >> 32) | 1u));
  return negative_log(fmaf(static_cast<float>(h >> 9), 0x1p-23f, 0x1p-24f));
}

}  // namespace turnbench::cuda
