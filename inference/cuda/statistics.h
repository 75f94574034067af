#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

// Only one thread may call these with one context at a time.  head_dim must be a multiple of 4, at
// most 256.

/// See Backend::row_probabilities; the bits are those of the CPU.  Scores are float32 multiply-adds
/// in the order of head_dim for every dtype of the keys.  q: [rows, head_dim], in host or device
/// memory; positions: [rows]; out: [rows, columns] without gaps, in host memory.
void row_probabilities(Context& context, float scale, const KvHeadCache& keys,
                       MatrixView<const float> q, const std::int32_t* positions, int sliding_window,
                       MatrixView<float> out);

/// See Backend::add_line_mass.  Adds such probabilities row by row in order, so that the sums do
/// not depend on the split of rows into calls or on the other jobs.
void add_line_mass(Context& context, float scale, std::span<const LineMassJob> jobs);

/// See Backend::add_column_sums.  Rows are added one by one in order, so that the sums do not
/// depend on the split into calls.  float32 keys: scores are float32 multiply-adds; without noise
/// the bits are those of the CPU.  16-bit keys with head_dim a multiple of 16: tensor cores, with
/// each query as the sum of two 16-bit numbers (relative error 2^-17 for bf16, 2^-22 for f16). Rows
/// of q must be 16-byte aligned.
void add_column_sums(Context& context, float scale, std::span<const ColumnJob> jobs);

}  // namespace turnbench::cuda
