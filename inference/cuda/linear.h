#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cuda/context.h"
#include "inference/cuda/gemm.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"

namespace turnbench::cuda {

/// Weights of a linear layer in device memory, row-major [out, in].
struct Weights {
  std::int64_t out = 0, in = 0;
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
};

/// Products with at most this many rows (decode steps) are computed in float32 by a kernel that
/// reads every weight once; those with more rows by cuBLASLt on the tensor cores.
constexpr std::int64_t kFewRows = 8;

/// y[r, o] = bias[o] + sum_i x[r, i] w[o, i], all in device memory. x: [rows, in]; bias: [out] or
/// null; y: [rows, out].  With at most kFewRows rows, the summation order of a row does not depend
/// on the number of rows.  With more rows, x is rounded to the type of the weights and sums are
/// float32; if cuBLASLt has no algorithm, the kernel for few rows computes some rows at a time in
/// float32.
void linear(Context& context, Gemm& gemm, MatrixView<const float> x, const Weights& w,
            const float* bias, MatrixView<float> y);

/// The number of blocks for `pieces` > 0 pieces of equal work, if `resident` blocks run at the same
/// time: the smallest number with the same number of rounds, so that the work is balanced.
int equal_shares(int pieces, int resident);

}  // namespace turnbench::cuda
