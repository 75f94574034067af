#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

// A context serves one of these at a time.  head_dim is a multiple of 4, at most 256.

/// As Backend::row_probabilities, whose bits it has: scores by float32 multiply-adds in the order
/// of head_dim whatever the keys' dtype.  q: [rows, head_dim], the host's or the device's; out:
/// [rows, columns], the host's, side by side, and complete on return.
void row_probabilities(Context& context, float scale, const KvHeadCache& keys,
                       MatrixView<const float> q, const std::int32_t* positions, int sliding_window,
                       MatrixView<float> out);

/// As Backend::add_line_mass: such probabilities, added row by row in order to what the host's sums
/// hold, so that neither the split of rows into calls nor the grouping of jobs shows.
void add_line_mass(Context& context, float scale, std::span<const LineMassJob> jobs);

/// As Backend::add_column_sums; rows are added one by one in order, so the split into calls does
/// not show.  float32 keys: float32 multiply-adds, and without noise the CPU's bits.  16-bit keys
/// whose head_dim is a multiple of 16: tensor cores, a query as the sum of two 16-bit numbers (its
/// error: 2^-17 of it for bf16, 2^-22 for f16).  Rows of q start at multiples of 16 bytes.
void add_column_sums(Context& context, float scale, std::span<const ColumnJob> jobs);

}  // namespace turnbench::cuda
