#pragma once

// The functions of inference/cuda/intrinsics.h, as specified there.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace turnbench::cuda {

inline std::byte* shared_memory() {
  return emulation::shared_bytes();
}

namespace emulated {

using emulation::Factors, emulation::Pairs, emulation::Place, emulation::Product;

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                Product (*multiply)(const Factors&, const Place&), const Place& where) {
  const Product product = multiply({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, where);
  for (int i = 0; i < 4; ++i) d[i] += product.d[i];
}

inline void load(std::uint32_t (&out)[4], const void* row, bool transposed, const Place& where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
    emulation::fail("a matrix's row is not at a 16-byte boundary", where);
  }
  if (!emulation::is_shared(row, 16)) {
    emulation::fail("a matrix's row is not in shared memory", where);
  }
  // Every row is read before a lane continues, and by the lane that provides it, because the
  // instruction does not order what other lanes have written.
  Pairs pairs;
  std::memcpy(pairs.words, row, sizeof(pairs.words));
  pairs = emulation::distribute(pairs, transposed, where);
  std::memcpy(out, pairs.words, sizeof(pairs.words));
}

}  // namespace emulated

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                __nv_bfloat16, emulation::Place where = emulation::Place::current()) {
  emulated::mma(d, a, b, emulation::multiply_bf16, where);
}
inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], __half,
                emulation::Place where = emulation::Place::current()) {
  emulated::mma(d, a, b, emulation::multiply_f16, where);
}

inline std::uint32_t pack(float low, float high, __nv_bfloat16) {
  return float_to_bf16(low) | static_cast<std::uint32_t>(float_to_bf16(high)) << 16;
}
inline std::uint32_t pack(float low, float high, __half) {
  return float_to_f16(low) | static_cast<std::uint32_t>(float_to_f16(high)) << 16;
}

inline float power_of_2(float x) {
  return exp2f(x);
}

inline void load_matrices(std::uint32_t (&out)[4], const void* row,
                          emulation::Place where = emulation::Place::current()) {
  emulated::load(out, row, false, where);
}
inline void load_transposed(std::uint32_t (&out)[4], const void* row,
                            emulation::Place where = emulation::Place::current()) {
  emulated::load(out, row, true, where);
}

inline void copy_async(void* shared, const void* global, bool valid,
                       emulation::Place where = emulation::Place::current()) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(global) % 16 != 0) {
    emulation::fail("an asynchronous copy is not at 16-byte boundaries", where);
  }
  if (!emulation::is_shared(shared, 16)) {
    emulation::fail("an asynchronous copy does not go to shared memory", where);
  }
  if (emulation::is_shared(global, 1)) {
    emulation::fail("an asynchronous copy does not come from global memory", where);
  }
  emulation::start_copy(shared, valid ? global : nullptr);
}
inline void commit_copies() {
  emulation::end_group();
}
template <int kPending>
void wait_for_copies() {
  emulation::wait_for_groups(kPending);
}

}  // namespace turnbench::cuda
