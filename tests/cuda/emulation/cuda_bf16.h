#pragma once

// bfloat16 values as in CUDA's header of this name; only conversions.

#include "inference/model/dtype.h"
#include "vector_types.h"

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  unsigned short bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return x.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 out;
  out.bits = bits;
  return out;
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return turnbench::bf16_to_float(x.bits);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return __ushort_as_bfloat16(turnbench::float_to_bf16(x));
}
inline __nv_bfloat16 __float2bfloat16(float x) {
  return __float2bfloat16_rn(x);
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) {
  return {low, high};
}
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) {
  return {x, x};
}
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) {
  return x.x;
}
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) {
  return x.y;
}
inline float __low2float(__nv_bfloat162 x) {
  return __bfloat162float(x.x);
}
inline float __high2float(__nv_bfloat162 x) {
  return __bfloat162float(x.y);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
  return __floats2bfloat162_rn(x.x, x.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
  return {__bfloat162float(x.x), __bfloat162float(x.y)};
}
