#pragma once

#include <cstddef>
#include <cstdint>

#include "common/thread_pool.h"
#include "inference/cpu/bf16_product.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"

namespace turnbench::cpu {

/// Weights of a linear layer, [out, in], rounded to bf16; the layout is that of a PairedView.
struct PairedMatrix {
  std::int64_t out = 0, in = 0;
  Buffer data;

  PairedView view() const { return {data.as<std::uint16_t>(), out, in}; }
  float at(std::int64_t o, std::int64_t i) const {
    return bf16_to_float(data.as<std::uint16_t>()[view().index(o, i)]);
  }
};

/// Allocates a matrix of zeros, whose rows `pack_rows` then sets.
PairedMatrix make_paired(std::int64_t out, std::int64_t in);

/// Sets the weights of outputs [first, first + rows).  source: [rows, in] of `dtype`.
void pack_rows(PairedMatrix& matrix, std::int64_t first, const void* source, DType dtype,
               std::int64_t rows);

/// y[r, o] = bias[o] + sum_i x[r, i] w[o, i] with x rounded to bf16; the sum is that of `multiply`.
/// x: [rows, in]; y: [rows, out]; bias: [out] or null; `rounded` is scratch of at most
/// `RoundedRows::floats` floats.
void linear_bf16(ThreadPool& pool, MatrixView<const float> x, PairedView w, const float* bias,
                 MatrixView<float> y, Scratch& rounded, Bf16Unit unit = bf16_unit());

}  // namespace turnbench::cpu
