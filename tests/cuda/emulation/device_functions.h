#pragma once

// The device functions of CUDA that kernels use.

#include <math.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "scheduler.h"

inline void __syncthreads(emulation::Place where = emulation::Place::current()) {
  emulation::barrier(where);
}

inline void __syncwarp(unsigned mask = emulation::kFullMask,
                       emulation::Place where = emulation::Place::current()) {
  emulation::sync_lanes(mask, where);
}

inline void __threadfence() {}
inline void __threadfence_block() {}

namespace emulation {

/// Gives every lane the value of lane `source`; the value of an absent lane has all bits set.
template <typename T>
T shuffled(unsigned mask, T value, int source, const Place& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, source, where);
  T out;
  std::memcpy(&out, &bits, sizeof(T));
  return out;
}

}  // namespace emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              emulation::Place where = emulation::Place::current()) {
  const int base = emulation::lane() & ~(width - 1);
  return emulation::shuffled(mask, value, base | (source & (width - 1)), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  emulation::Place where = emulation::Place::current()) {
  const int lane = emulation::lane(), source = lane ^ bits;
  return emulation::shuffled(mask, value, source > (lane | (width - 1)) ? lane : source, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 emulation::Place where = emulation::Place::current()) {
  const int lane = emulation::lane(), step = static_cast<int>(delta);
  return emulation::shuffled(mask, value, (lane & (width - 1)) < step ? lane : lane - step, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   emulation::Place where = emulation::Place::current()) {
  const int lane = emulation::lane(), step = static_cast<int>(delta);
  return emulation::shuffled(mask, value, (lane & (width - 1)) + step >= width ? lane : lane + step,
                             where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              emulation::Place where = emulation::Place::current()) {
  return emulation::vote(mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate,
                      emulation::Place where = emulation::Place::current()) {
  return emulation::vote(mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      emulation::Place where = emulation::Place::current()) {
  return emulation::vote(mask, predicate == 0, where) == 0;
}

inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
/// The position of the lowest set bit, counted from 1; 0 if no bit is set.
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
  return out;
}

inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}

inline float rsqrtf(float x) {
  return 1.0F / sqrtf(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __frcp_rn(float x) {
  return 1.0F / x;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __saturatef(float x) {
  return x > 1.0F ? 1.0F : x > 0.0F ? x : 0.0F;
}
// The C library uses these names itself.
#define __expf(x) ::expf(x)
#define __exp2f(x) ::exp2f(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __powf(x, y) ::powf(x, y)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)

template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T __ldcs(const T* at) {
  return *at;
}
template <typename T>
void __stcg(T* at, T value) {
  *at = value;
}

#define EMULATED_MIN_MAX(type)      \
  inline type min(type a, type b) { \
    return b < a ? b : a;           \
  }                                 \
  inline type max(type a, type b) { \
    return a < b ? b : a;           \
  }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
#undef EMULATED_MIN_MAX
inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) {
  return fmaxf(a, b);
}

// Atomics, only for integers: sums of floats would depend on the order of threads.  Atomics are no
// races and do not order threads.
template <std::integral T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <std::integral T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <std::integral T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <std::integral T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
