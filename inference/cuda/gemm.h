#pragma once

#include <cstddef>
#include <memory>

#include "inference/cuda/context.h"
#include "inference/dtype.h"

namespace turnbench::cuda {

/// Products of large matrices by the library that the program is linked with; its results are the
/// same from run to run.
class Gemm {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32}
                                                 << 20;  ///< of the library, at most

  explicit Gemm(Context& context);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// y[r, o] = sum_i x[r, i] w[o, i], all in device memory: x [rows, in], `ldx` elements apart, and
  /// w [out, in] of `type`; y [rows, out], `ldy` apart, and all sums float32.
  void run(Context& context, DType type, const void* x, std::size_t rows, std::size_t ldx,
           const void* w, std::size_t out, std::size_t in, float* y, std::size_t ldy);

  /// Device memory that it holds.
  std::size_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Floating-point operations per second, two for a multiply-add, of a bfloat16 product of two
/// square matrices of `size`: the median of several runs.
double measure_flops(Context& context, Gemm& gemm, std::size_t size = 8192);

}  // namespace turnbench::cuda
