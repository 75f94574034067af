#pragma once

#include <cstddef>
#include <cstdint>

#include "common/thread_pool.h"
#include "inference/cpu/attention_state.h"
#include "inference/cpu/bf16_unit.h"
#include "inference/model/dtype.h"
#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"

namespace turnbench::cpu {

constexpr std::int64_t kPanelOutputs = 16;  ///< columns of an AMX tile
constexpr std::int64_t kBlockInputs = 32;   ///< inputs per tile

/// Weights of a linear layer, [out, in], rounded to bf16: [panels of 16 outputs][pairs of
/// inputs][16 outputs][2 inputs], padded with zeros to whole panels and to whole blocks of 32
/// inputs.  16 pairs are one tile of AMX; all other instruction sets read the same layout.
struct PairedMatrix {
  std::int64_t out = 0, in = 0;
  Buffer data;

  std::int64_t panels() const { return (out + kPanelOutputs - 1) / kPanelOutputs; }
  std::int64_t blocks() const { return (in + kBlockInputs - 1) / kBlockInputs; }
  /// Elements of a panel.
  std::int64_t panel_size() const { return blocks() * kBlockInputs * kPanelOutputs; }
  std::int64_t index(std::int64_t o, std::int64_t i) const {
    return o / kPanelOutputs * panel_size() + (i / 2 * kPanelOutputs + o % kPanelOutputs) * 2 +
           i % 2;
  }
  float at(std::int64_t o, std::int64_t i) const {
    return bf16_to_float(data.as<std::uint16_t>()[index(o, i)]);
  }
  const std::uint16_t* panel(std::int64_t p) const {
    return data.as<std::uint16_t>() + p * panel_size();
  }
};

/// Allocates a matrix of zeros, whose rows `pack_rows` then sets.
PairedMatrix make_paired(std::int64_t out, std::int64_t in);

/// Sets the weights of outputs [first, first + rows).  source: [rows, in] of `dtype`.
void pack_rows(PairedMatrix& matrix, std::int64_t first, const void* source, DType dtype,
               std::int64_t rows);

/// y[r, o] = bias[o] + sum_i x[r, i] w[o, i] with x rounded to bf16.  x: [rows, in]; y: [rows,
/// out]; bias: [out] or null; `rounded` is scratch of at most `rounded_floats` floats.
///
/// The sum is that of AMX's TDPBF16PS (Intel 64 and IA-32 Architectures Software Developer's
/// Manual, volume 2): it starts from 0; for each block of 32 inputs the products of the even and of
/// the odd inputs are two chains of fused multiply-adds from 0 in ascending order, and the sum of
/// both is added to it.  All in float32, rounded to nearest; denormals count as zeros.  Every
/// instruction set with fused multiply-add gives the same bits, so a row's bits depend neither on
/// the machine nor on other rows, on threads or on blocks.
void linear_bf16(ThreadPool& pool, MatrixView<const float> x, const PairedMatrix& w,
                 const float* bias, MatrixView<float> y, Scratch& rounded,
                 Bf16Unit unit = bf16_unit());

/// Upper bound of the scratch of `linear_bf16`, in floats.
std::int64_t rounded_floats(std::int64_t rows, std::int64_t in, Bf16Unit unit = bf16_unit());

/// Maximal rows per task, a multiple of the rows of every register tile and of AMX's 16; their part
/// of x, at a depth of kBf16Depth blocks of inputs, has to fit into a second-level cache of 1 MiB.
constexpr std::int64_t kBf16RowBlock = 240, kBf16Depth = 28;

/// One thread's share of a product by multiply-adds: at most kBf16RowBlock rows, panels
/// [first_panel, last_panel).
struct Bf16Task {
  /// x rounded, as floats: [rows, whole blocks of inputs], padded with zeros.
  const float* rounded;
  std::int64_t ld_rounded;  ///< in floats
  const PairedMatrix* w;
  std::int64_t first_panel, last_panel;
  MatrixView<float> y;  ///< [rows, out], set without the bias
};

}  // namespace turnbench::cpu
