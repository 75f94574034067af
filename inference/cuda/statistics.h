#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

// Attention of several rows over 16-bit keys rounds queries to the keys' type, for the tensor cores
// (attention_rows.cu); attention of a single row, a decode step, does not (decode_attention.cu).
// Scores for selection and eviction use the same queries as the attention that they approximate:
// statistics use rounded queries if `attended_rows` is more than 1; `row_probabilities`, which
// belong to prompts, always do; selections for single rows (key_scores.cu, vector_scores.cu) use
// float32.

/// Whether the attention of these rows used rounded queries.
inline bool rounds_queries(const StatisticRows& rows) {
  return rows.keys->layout().dtype != DType::kF32 && rows.attended_rows() > 1;
}

// Only one thread may call these with one context at a time.  head_dim must be a multiple of 4, at
// most 256.

/// See Backend::row_probabilities; bit-identical to the CPU for the same queries.  Scores are
/// float32 multiply-adds in the order of head_dim for every dtype of the keys. q: [rows, head_dim],
/// in host or device memory; positions: [rows]; out: [rows, columns] without gaps, in host memory.
void row_probabilities(Context& context, float scale, const KvHeadCache& keys,
                       MatrixView<const float> q, const std::int32_t* positions, int sliding_window,
                       MatrixView<float> out);

/// See Backend::add_line_mass.  Adds the probabilities row by row in order.  The sums do not depend
/// on the other jobs nor, for the same `attended_rows`, on the division of rows into calls.
void add_line_mass(Context& context, float scale, std::span<const LineMassJob> jobs);

/// See Backend::add_column_sums.  Rows are added one by one in order.  For the same
/// `attended_rows`, the sums do not depend on the division into calls.  Rounded queries with
/// head_dim a multiple of 16: scores by tensor cores, with float32 sums.  Others: float32
/// multiply-adds; without noise, bit-identical to the CPU for the same queries.  Rows of q must be
/// 16-byte aligned.
void add_column_sums(Context& context, float scale, std::span<const ColumnJob> jobs);

}  // namespace turnbench::cuda
