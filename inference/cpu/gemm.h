#pragma once

#include <cstddef>
#include <cstdint>

#include "common/thread_pool.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"

namespace turnbench::cpu {

/// Weights of a linear layer, [out, in], packed for the matrix product: [panels][in][panel], the
/// last panel padded with zeros.  Products read it sequentially.
struct PackedMatrix {
  std::int64_t out = 0, in = 0;
  std::int64_t panel = 0;  ///< outputs per panel; depends on the instruction set
  DType dtype = DType::kF32;
  Buffer data;

  std::int64_t panels() const { return (out + panel - 1) / panel; }
  std::size_t bytes() const { return data.size(); }
  /// Element (o, i) as float.  For single elements; slow.
  float at(std::int64_t o, std::int64_t i) const {
    return load_element(data.data(), dtype, ((o / panel) * in + i) * panel + o % panel);
  }
};

/// Allocates a packed matrix, whose rows `pack_rows` then sets.
PackedMatrix make_packed(std::int64_t out, std::int64_t in, DType dtype);

/// Packs the weights of outputs [first, first + rows), rounded to the matrix's dtype.  source:
/// [rows, in] of `source_dtype`.
void pack_rows(PackedMatrix& matrix, std::int64_t first, const void* source, DType source_dtype,
               std::int64_t rows);

/// y[r, o] = bias[o] + sum_i x[r, i] * w[o, i].  x: [rows, in]; y: [rows, out]; bias: [out] or
/// null.  Each output is one chain of fused multiply-adds over i in ascending order, so a row's
/// bits do not depend on other rows, on threads or on blocks.
void linear(ThreadPool& pool, MatrixView<const float> x, const PackedMatrix& w, const float* bias,
            MatrixView<float> y);

/// Maximal rows per task; a multiple of the rows of every register tile.  With more rows, panels
/// are read and widened less often, but their part of x has to fit into a second-level cache of 1
/// MiB.
constexpr std::int64_t kRowBlock = 258;
/// Panels by which a single row is multiplied at the same time, as separate memory streams.
constexpr int kStreams = 4;

/// One thread's share of a product: at most kRowBlock rows, panels [first_panel, last_panel).
struct LinearTask {
  MatrixView<const float> x;  ///< [rows, in]
  const PackedMatrix* w;
  std::int64_t first_panel, last_panel;
  const float* bias;    ///< [out] or null
  MatrixView<float> y;  ///< [rows, out]
};

}  // namespace turnbench::cpu
