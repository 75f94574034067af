#pragma once

// The functions of inference/cuda/intrinsics.h, as its comments say.

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

using emulation::Exchange;
using emulation::Place;

inline float widened(std::uint32_t bits, __half) {
  return f16_to_float(static_cast<std::uint16_t>(bits));
}
inline float widened(std::uint32_t bits, __nv_bfloat16) {
  return bf16_to_float(static_cast<std::uint16_t>(bits));
}

inline void multiply(Exchange& e) {
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += e.a[row][k] * e.b[k][column];
    }
    for (int column = 0; column < 8; ++column) e.d[row][column] = sums[column];
  }
}

template <typename T>
void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], T type,
         const Place& where) {
  const int group = emulation::lane() / 4, pair = emulation::lane() % 4 * 2;
  const auto deposit = [&](Exchange& e) {
    for (int i = 0; i < 4; ++i) {
      float* at = &e.a[group + (i % 2) * 8][pair + (i / 2) * 8];
      at[0] = widened(a[i] & 0xFFFF, type);
      at[1] = widened(a[i] >> 16, type);
    }
    for (int i = 0; i < 2; ++i) {
      e.b[pair + i * 8][group] = widened(b[i] & 0xFFFF, type);
      e.b[pair + i * 8 + 1][group] = widened(b[i] >> 16, type);
    }
  };
  const Exchange& e = emulation::meet(emulation::kFullMask, true, where, deposit, multiply);
  d[0] += e.d[group][pair];
  d[1] += e.d[group][pair + 1];
  d[2] += e.d[group + 8][pair];
  d[3] += e.d[group + 8][pair + 1];
}

inline void load(std::uint32_t (&out)[4], const void* row, bool transposed, const Place& where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
    emulation::fail("a matrix's row is not at a 16-byte boundary", where);
  }
  if (!emulation::is_shared(row, 16)) {
    emulation::fail("a matrix's row is not in shared memory", where);
  }
  const int lane = emulation::lane();
  // All rows are read before a lane goes on, as the warp does it in one instruction.
  const Exchange& e = emulation::meet(
      emulation::kFullMask, true, where,
      [&](Exchange& mine) { mine.values[lane] = reinterpret_cast<std::uintptr_t>(row); },
      [](Exchange& all) {
        for (int i = 0; i < 32; ++i) {
          std::memcpy(all.matrices[i / 8][i % 8], reinterpret_cast<const void*>(all.values[i]), 16);
        }
      });
  for (int i = 0; i < 4; ++i) {
    if (!transposed) {
      out[i] = e.matrices[i][lane / 4][lane % 4];
      continue;
    }
    const int column = lane / 4, first = lane % 4 * 2;
    const int shift = column % 2 * 16;
    out[i] = (e.matrices[i][first][column / 2] >> shift & 0xFFFF) |
             (e.matrices[i][first + 1][column / 2] >> shift & 0xFFFF) << 16;
  }
}

}  // namespace emulated

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                __nv_bfloat16 type, emulation::Place where = emulation::Place::current()) {
  emulated::mma(d, a, b, type, where);
}
inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                __half type, emulation::Place where = emulation::Place::current()) {
  emulated::mma(d, a, b, type, where);
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
