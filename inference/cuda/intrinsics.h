#pragma once

// Device functions beyond the CUDA runtime: shared memory, asynchronous copies, and instructions of
// the tensor cores.  The sources of this folder compile with a CUDA compiler, and as plain C++ with
// the emulation of the tests, which provides the names of the runtime and of this header.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__

namespace turnbench::cuda {

/// The dynamic shared memory of the block, 16-byte aligned; its size is given at the launch.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<std::byte*>(bytes);
}

/// d += a b on the tensor cores.  a [16, 16], b [16, 8] and d [16, 8] are distributed over the
/// lanes of a warp as in PTX's mma.m16n8k16.  With g = lane / 4 and t = lane % 4:
///   a[0]: row g, columns 2t, 2t + 1;  a[1]: row g + 8;  a[2], a[3]: the same, 8 columns on
///   b[0]: rows 2t, 2t + 1 of column g;  b[1]: rows 2t + 8, 2t + 9
///   d[0], d[1]: row g, columns 2t, 2t + 1;  d[2], d[3]: row g + 8
__device__ inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                           __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                           __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Two floats rounded to 16 bits each, the first in the low half.
__device__ inline std::uint32_t pack(float low, float high, __nv_bfloat16) {
  std::uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline std::uint32_t pack(float low, float high, __half) {
  std::uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

/// 2^x in one instruction, with an error of about 2 ulp.
__device__ inline float power_of_2(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(out) : "f"(x));
  return out;
}

/// Loads four 8 x 8 matrices of 16-bit elements from shared memory (ldmatrix).  Lane l passes the
/// address of row l % 8 of matrix l / 8.  out[i] receives the elements of matrix i in row l / 4 and
/// columns 2 (l % 4) and 2 (l % 4) + 1.
__device__ inline void load_matrices(std::uint32_t (&out)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at));
}

/// The same, but each matrix is transposed.
__device__ inline void load_transposed(std::uint32_t (&out)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at));
}

/// Starts copying 16 bytes from global to shared memory, both 16-byte aligned; zeros if not
/// `valid`.
__device__ inline void copy_async(void* shared, const void* global, bool valid) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(global),
               "r"(valid ? 16 : 0));
}
/// Ends a group of asynchronous copies.
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;\n");
}
/// Waits until at most `kPending` groups of this thread's copies are incomplete.  The block sees
/// the data after a barrier.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

}  // namespace turnbench::cuda

#else
#include "emulated_intrinsics.h"
#endif
