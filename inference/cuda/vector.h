#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cuda/device.h"

namespace turnbench::cuda {

/// Elements that one instruction loads or stores, at an address that is a multiple of their size.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};

template <int kCount, typename T>
__device__ Vector<T, kCount> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}
template <typename T, int kCount>
__device__ void store_vector(T* to, const Vector<T, kCount>& values) {
  *reinterpret_cast<Vector<T, kCount>*>(to) = values;
}

/// Whether an address is a multiple of `bytes`; null is of all.
__host__ __device__ inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

/// Four floats at a time: how the elementwise kernels go through a row of `width`.  Elements
/// [i, i + 4) of a row are of one thread whether or not addresses allow vectors, so that alignment
/// never changes a sum.
constexpr int kQuad = 4;

/// Elements [i, i + 4) of a row, zeros past its end; `kAligned`: by one load.
template <bool kAligned>
__device__ Vector<float, kQuad> load_quad(const float* row, std::size_t i, std::size_t width) {
  if constexpr (kAligned) {
    return load_vector<kQuad>(row + i);
  } else {
    Vector<float, kQuad> out;
    for (std::size_t j = 0; j < kQuad; ++j) out.at[j] = i + j < width ? row[i + j] : 0.0f;
    return out;
  }
}

/// Writes them, rounded to T, up to the row's end.
template <bool kAligned, typename T>
__device__ void store_quad(T* row, std::size_t i, std::size_t width,
                           const Vector<float, kQuad>& values) {
  if constexpr (kAligned) {
    Vector<T, kQuad> rounded;
    for (int j = 0; j < kQuad; ++j) rounded.at[j] = from_float<T>(values.at[j]);
    store_vector(row + i, rounded);
  } else {
    for (std::size_t j = 0; j < kQuad && i + j < width; ++j)
      row[i + j] = from_float<T>(values.at[j]);
  }
}

}  // namespace turnbench::cuda
