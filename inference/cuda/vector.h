#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "inference/cuda/device.h"
#include "inference/model/matrix_view.h"

namespace turnbench::cuda {

/// Elements that one instruction loads or stores; the address must be a multiple of their size.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};

template <int kCount, typename T>
__device__ Vector<T, kCount> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}

/// True if an address is a multiple of `bytes`; also for null.
__host__ __device__ inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

/// Number of elements that a thread of the elementwise kernels processes at a time.  They belong to
/// one thread even if addresses do not allow vector loads, so that alignment does not change sums.
constexpr int kQuad = 4;

/// True if a row, or all rows of a matrix, can be accessed by aligned vectors of four floats.
inline bool by_quads(const float* row) {
  return is_aligned(row, sizeof(float) * kQuad);
}
inline bool by_quads(MatrixView<const float> x) {
  return by_quads(x.data) && x.stride % kQuad == 0 && x.columns % kQuad == 0;
}

/// Loads elements [i, i + 4) of a row, with zeros beyond its end; with kAligned by one load.
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

__device__ inline unsigned short bits_of(__half x) {
  return __half_as_ushort(x);
}
__device__ inline unsigned short bits_of(__nv_bfloat16 x) {
  return __bfloat16_as_ushort(x);
}

/// Stores elements [i, i + 4) of a row, rounded to T, up to its end.  Uses CUDA's vector types,
/// because the compiler splits other structures into four stores.
template <bool kAligned, typename T>
__device__ void store_quad(T* row, std::size_t i, std::size_t width,
                           const Vector<float, kQuad>& values) {
  const float* v = values.at;
  if constexpr (!kAligned) {
    for (std::size_t j = 0; j < kQuad && i + j < width; ++j) row[i + j] = from_float<T>(v[j]);
  } else if constexpr (std::is_same_v<T, float>) {
    __stcg(reinterpret_cast<float4*>(row + i), make_float4(v[0], v[1], v[2], v[3]));
  } else {
    __stcg(reinterpret_cast<ushort4*>(row + i),
           make_ushort4(bits_of(from_float<T>(v[0])), bits_of(from_float<T>(v[1])),
                        bits_of(from_float<T>(v[2])), bits_of(from_float<T>(v[3]))));
  }
}

}  // namespace turnbench::cuda
