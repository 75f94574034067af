#pragma once

// Half-precision values as in CUDA's header of this name; only conversions.

#include "inference/model/dtype.h"
#include "vector_types.h"

struct __half {
  __half() = default;
  unsigned short bits;
};
struct alignas(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

inline unsigned short __half_as_ushort(__half x) {
  return x.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
  __half out;
  out.bits = bits;
  return out;
}
inline float __half2float(__half x) {
  return turnbench::f16_to_float(x.bits);
}
inline __half __float2half_rn(float x) {
  return __ushort_as_half(turnbench::float_to_f16(x));
}
inline __half __float2half(float x) {
  return __float2half_rn(x);
}
inline __half2 __halves2half2(__half low, __half high) {
  return {low, high};
}
inline __half2 __half2half2(__half x) {
  return {x, x};
}
inline __half __low2half(__half2 x) {
  return x.x;
}
inline __half __high2half(__half2 x) {
  return x.y;
}
inline float __low2float(__half2 x) {
  return __half2float(x.x);
}
inline float __high2float(__half2 x) {
  return __half2float(x.y);
}
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}
inline __half2 __float22half2_rn(float2 x) {
  return __floats2half2_rn(x.x, x.y);
}
inline float2 __half22float2(__half2 x) {
  return {__half2float(x.x), __half2float(x.y)};
}
