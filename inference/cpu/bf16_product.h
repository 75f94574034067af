#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cpu/bf16_unit.h"
#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

constexpr std::int64_t kPanelOutputs = 16;  ///< columns of an AMX tile
constexpr std::int64_t kBlockInputs = 32;   ///< inputs per tile

/// A matrix of bf16, [out, in], as all units read it: [panels of 16 outputs][pairs of inputs][16
/// outputs][2 inputs], padded with zeros to whole panels and to whole blocks of 32 inputs.  16
/// pairs are one tile of AMX.
struct PairedView {
  const std::uint16_t* data = nullptr;
  std::int64_t out = 0, in = 0;

  constexpr std::int64_t panels() const { return (out + kPanelOutputs - 1) / kPanelOutputs; }
  constexpr std::int64_t blocks() const { return (in + kBlockInputs - 1) / kBlockInputs; }
  /// Elements of a panel, and of all.
  constexpr std::int64_t panel_size() const { return blocks() * kBlockInputs * kPanelOutputs; }
  constexpr std::int64_t size() const { return panels() * panel_size(); }
  std::int64_t index(std::int64_t o, std::int64_t i) const {
    return o / kPanelOutputs * panel_size() + (i / 2 * kPanelOutputs + o % kPanelOutputs) * 2 +
           i % 2;
  }
  const std::uint16_t* panel(std::int64_t p) const { return data + p * panel_size(); }
};

/// Rows of the first factor, rounded to bf16 in the layout of a unit: whole tiles of 16 rows for
/// kTiles, half floats for kDotProduct, floats for kMultiplyAdd; padded with zeros to whole blocks
/// of inputs.
struct RoundedRows {
  Bf16Unit unit = Bf16Unit::kMultiplyAdd;
  float* data = nullptr;
  std::int64_t in = 0;

  /// `wanted`, or a unit with the same bits that is faster for so few rows.
  static Bf16Unit unit_for(std::int64_t rows, Bf16Unit wanted);
  /// Memory for `rows` rows of `in` elements, in floats; not less than for fewer rows by their
  /// `unit_for`.
  static std::int64_t floats(std::int64_t rows, std::int64_t in, Bf16Unit unit);

  /// Floats per row.
  std::int64_t stride() const;
  /// The rows from `row` on, a multiple of 16.
  RoundedRows from(std::int64_t row) const { return {unit, data + row * stride(), in}; }
  /// Rounds x [rows, in] into the memory.
  void set(MatrixView<const float> x) const;
};

/// Rounds x [n] to bf16, as floats; NaN stays NaN.  out may be x.
void round_to_bf16(const float* x, std::int64_t n, float* out);

/// One thread's share of a product: at most kBf16RowBlock rows, panels [first_panel, last_panel).
struct Bf16Product {
  RoundedRows x;
  PairedView w;
  std::int64_t first_panel, last_panel;
  MatrixView<float> y;  ///< [rows, out]
  bool add = false;     ///< y is added to, instead of set
};

/// Maximal rows per product, a multiple of the rows of every register tile and of AMX's 16; their
/// part of x, at a depth of kBf16Depth blocks of inputs, has to fit into a second-level cache of 1
/// MiB.
constexpr std::int64_t kBf16RowBlock = 240, kBf16Depth = 28;

/// y[r, o] (+)= sum_i x[r, i] w[o, i].
///
/// The sum is that of AMX's TDPBF16PS (Intel 64 and IA-32 Architectures Software Developer's
/// Manual, volume 2): it starts from 0, or from y; for each block of 32 inputs the products of the
/// even and of the odd inputs are two chains of fused multiply-adds from 0 in ascending order, and
/// the sum of both is added to it.  All in float32, rounded to nearest; denormals count as zeros.
/// Every instruction set with fused multiply-add gives the same bits, so a row's bits depend
/// neither on the machine nor on other rows, on threads or on blocks.
void multiply(const Bf16Product& product);

}  // namespace turnbench::cpu
