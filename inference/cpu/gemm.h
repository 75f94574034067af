#pragma once

#include <cstddef>

#include "common/thread_pool.h"
#include "inference/dtype.h"
#include "inference/memory.h"

namespace turnbench::cpu {

/// Weights of a linear layer, [out, in], packed once for the GEMM: panels of `panel` outputs, each
/// stored [in][panel] and padded with zeros, so that every product streams through memory.
struct PackedMatrix {
  std::size_t out = 0, in = 0;
  std::size_t panel = 0;  ///< outputs per panel, as the chosen instruction set likes it
  DType dtype = DType::kF32;
  Buffer data;

  std::size_t panels() const { return (out + panel - 1) / panel; }
  std::size_t bytes() const { return data.size(); }
  /// Element (o, i) as float; for lookups, not for products.
  float at(std::size_t o, std::size_t i) const {
    return load_element(data.data(), dtype, ((o / panel) * in + i) * panel + o % panel);
  }
};

/// An empty packed matrix for `out` outputs; rows are then put in with `pack_rows`.
PackedMatrix make_packed(std::size_t out, std::size_t in, DType dtype);

/// Packs `rows` rows of `in` elements (row-major, the matrix's own dtype or float32, which is
/// rounded) as outputs [first, first + rows).
void pack_rows(PackedMatrix& matrix, std::size_t first, const void* source, DType source_dtype,
               std::size_t rows);

/// y[r, o] = bias[o] + sum_i x[r, i] * w[o, i] for `rows` rows; `bias` may be null.
/// x: [rows, in] with row stride ldx; y: [rows, out] with row stride ldy; float32.
/// Each output is one chain of fused multiply-adds over i in ascending order, whatever the number
/// of rows, threads or the blocking: so a row's result never depends on its company.
void linear(ThreadPool& pool, const float* x, std::size_t ldx, std::size_t rows,
            const PackedMatrix& w, const float* bias, float* y, std::size_t ldy);

/// The most rows that a task takes, a multiple of every register tile's: the more, the rarer a
/// panel is read (and widened), while their part of x stays in a second-level cache of 1 MiB.
constexpr std::size_t kRowBlock = 258;
/// Panels that a single row is multiplied with at once.
constexpr int kStreams = 4;

/// One thread's share of a product: at most kRowBlock rows, panels [first_panel, last_panel).
struct LinearTask {
  const float* x;
  std::size_t ldx, rows;
  const PackedMatrix* w;
  std::size_t first_panel, last_panel;
  const float* bias;
  float* y;
  std::size_t ldy;
};

}  // namespace turnbench::cpu
