#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cuda/context.h"
#include "inference/cuda/gemm.h"
#include "inference/dtype.h"
#include "inference/matrix_view.h"

namespace turnbench::cuda {

/// Weights of a linear layer in device memory, row-major [out, in].
struct Weights {
  std::int64_t out = 0, in = 0;
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
};

/// Up to this many rows (the decode steps of a batch) are multiplied in float32 by a kernel that
/// reads every weight once; more go to the tensor cores.
constexpr std::int64_t kFewRows = 8;

/// y[r, o] = bias[o] + sum_i x[r, i] w[o, i], all in device memory.  x: [rows, in]; bias: [out] or
/// null; y: [rows, out].  Of up to kFewRows rows each is summed in the same order, whatever their
/// number.  More rows are rounded to the type of the weights and summed in float32.
void linear(Context& context, Gemm& gemm, MatrixView<const float> x, const Weights& w,
            const float* bias, MatrixView<float> y);

}  // namespace turnbench::cuda
