#pragma once

#include <cstdint>
#include <span>

#include "inference/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Attention of jobs of several rows, or of patterned ones, whose `q`, `out` and `lse` are in
/// device memory; see AttentionJob.  Float keys are taken in float; 16-bit ones by the tensor
/// cores, for which queries and probabilities are rounded to the keys' type.  A row's result
/// depends on its own query and keys alone, and on whether its job has so few rows that their keys
/// are split.  head_dim is at most 256, a multiple of 4 (float) or 8.
void attend_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs);

/// The tiles of 64 rows and 64 keys that attend_rows computes for the heads with a pattern other
/// than the dense one: their share of the work.
std::int64_t count_pattern_tiles(Context& context, std::span<const AttentionJob* const> jobs);

}  // namespace turnbench::cuda
