#pragma once

#include <cstddef>
#include <cstdint>

#include "common/thread_pool.h"
#include "inference/dtype.h"
#include "inference/matrix_view.h"
#include "inference/memory.h"

namespace turnbench::cpu {

/// Weights of a linear layer, [out, in], packed once for the GEMM: panels of `panel` outputs, each
/// stored [in][panel] and padded with zeros, so that every product streams through memory.
struct PackedMatrix {
  std::int64_t out = 0, in = 0;
  std::int64_t panel = 0;  ///< outputs per panel, as the chosen instruction set likes it
  DType dtype = DType::kF32;
  Buffer data;

  std::int64_t panels() const { return (out + panel - 1) / panel; }
  std::size_t bytes() const { return data.size(); }
  /// Element (o, i) as float; for lookups, not for products.
  float at(std::int64_t o, std::int64_t i) const {
    return load_element(data.data(), dtype, ((o / panel) * in + i) * panel + o % panel);
  }
};

/// An empty packed matrix for `out` outputs; rows are then put in with `pack_rows`.
PackedMatrix make_packed(std::int64_t out, std::int64_t in, DType dtype);

/// Packs `source` [rows, in] (of any dtype, rounded to the matrix's own) as outputs
/// [first, first + rows).
void pack_rows(PackedMatrix& matrix, std::int64_t first, const void* source, DType source_dtype,
               std::int64_t rows);

/// y[r, o] = bias[o] + sum_i x[r, i] * w[o, i].  x: [rows, in]; y: [rows, out]; bias: [out],
/// may be null.  Each output is one chain of fused multiply-adds over i in ascending order,
/// whatever the number of rows, threads or the blocking: so a row's result never depends on its
/// company.
void linear(ThreadPool& pool, MatrixView<const float> x, const PackedMatrix& w, const float* bias,
            MatrixView<float> y);

/// The most rows that a task takes, a multiple of every register tile's: the more, the rarer a
/// panel is read (and widened), while their part of x stays in a second-level cache of 1 MiB.
constexpr std::int64_t kRowBlock = 258;
/// Panels that a single row is multiplied with at once.
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
