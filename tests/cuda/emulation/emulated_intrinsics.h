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

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                void (*multiply)(Exchange&), const Place& where) {
  const int row = emulation::lane() / 4, pair = emulation::lane() % 4 * 2;
  const auto deposit = [&](Exchange& e) {
    for (int i = 0; i < 4; ++i) std::memcpy(&e.a[row + i % 2 * 8][pair + i / 2 * 8], &a[i], 4);
    for (int i = 0; i < 2; ++i) {
      e.b[pair + i * 8][row] = static_cast<std::uint16_t>(b[i]);
      e.b[pair + i * 8 + 1][row] = static_cast<std::uint16_t>(b[i] >> 16);
    }
  };
  const Exchange& e = emulation::meet(emulation::kFullMask, true, where, deposit, multiply);
  d[0] += e.product[row][pair];
  d[1] += e.product[row][pair + 1];
  d[2] += e.product[row + 8][pair];
  d[3] += e.product[row + 8][pair + 1];
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
      emulation::read_matrices);
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
