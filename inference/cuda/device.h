#pragma once

#include <type_traits>

#include "inference/cuda/intrinsics.h"
#include "inference/cuda/set_view.h"
#include "inference/model/dtype.h"

namespace turnbench::cuda {

constexpr int kWarp = 32;             ///< lanes of a warp
constexpr float kMasked = -INFINITY;  ///< score of a masked pair

/// Shared memory of a multiprocessor of compute capability 9.0, and its part that the system
/// reserves for each resident block, in bytes.
constexpr std::size_t kMultiprocessorShared = std::size_t{228} << 10, kReservedShared = 1 << 10;

/// True if `blocks` blocks with `bytes` bytes of shared memory each are resident at the same time.
constexpr bool shared_memory_fits(std::size_t bytes, int blocks) {
  return static_cast<std::size_t>(blocks) * (bytes + kReservedShared) <= kMultiprocessorShared;
}

/// An element of weights or of the KV cache as float.
__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <typename T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

/// Sum and maximum over the lanes of a warp, in a fixed tree.  Every lane receives the result.
__device__ inline float warp_sum(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, step));
  return x;
}

/// Calls body(T{}) with the C++ type of `dtype`.
template <typename Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(__half{});
    case DType::kBF16:
      return body(__nv_bfloat16{});
  }
}

}  // namespace turnbench::cuda
