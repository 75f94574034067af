#pragma once

#include <type_traits>

#include "inference/cuda/intrinsics.h"
#include "inference/kv_cache.h"

namespace turnbench::cuda {

constexpr int kWarp = 32;             ///< lanes of a warp
constexpr float kMasked = -INFINITY;  ///< score of a pair that is not seen

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

/// Sum and maximum over the lanes of a warp, in a fixed tree; every lane receives them.
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

/// A kept set as kernels see it; everything it points to is in device memory.
struct SetView {
  const std::byte* const* pages = nullptr;
  PageLayout layout;
  int size = 0;
  bool whole = false;  ///< slot i holds position i

  template <typename T>
  __device__ const T* key(int slot) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens]) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
  template <typename T>
  __device__ const T* value(int slot) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens] + layout.value_offset()) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
  __device__ std::int32_t position(int slot) const {
    return reinterpret_cast<const std::int32_t*>(pages[slot / kPageTokens] +
                                                 layout.position_offset())[slot % kPageTokens];
  }
  /// The first slot whose position is at least `wanted`.
  __device__ int lower_bound(std::int32_t wanted) const {
    int low = 0, high = size;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (position(middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace turnbench::cuda
