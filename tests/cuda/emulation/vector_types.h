#pragma once

// CUDA's vector types and the qualifiers of its functions, for a plain C++ compiler.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1)
      : x(width), y(height), z(depth) {}
};

struct uint3 {
  unsigned x, y, z;
};

#define EMULATED_VECTOR_2(name, type)       \
  struct alignas(2 * sizeof(type)) name {   \
    type x, y;                              \
  };                                        \
  inline name make_##name(type x, type y) { \
    return {x, y};                          \
  }
#define EMULATED_VECTOR_4(name, type)                       \
  struct alignas(4 * sizeof(type)) name {                   \
    type x, y, z, w;                                        \
  };                                                        \
  inline name make_##name(type x, type y, type z, type w) { \
    return {x, y, z, w};                                    \
  }
EMULATED_VECTOR_2(int2, int)
EMULATED_VECTOR_2(uint2, unsigned)
EMULATED_VECTOR_2(float2, float)
EMULATED_VECTOR_2(double2, double)
EMULATED_VECTOR_4(ushort4, unsigned short)
EMULATED_VECTOR_4(int4, int)
EMULATED_VECTOR_4(uint4, unsigned)
EMULATED_VECTOR_4(float4, float)
#undef EMULATED_VECTOR_2
#undef EMULATED_VECTOR_4

/// The position of the running thread in its block and its grid.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;
