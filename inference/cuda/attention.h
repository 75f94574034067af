#pragma once

#include <cstdint>
#include <span>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

constexpr int kMaxAttentionHeadDim = 256;  ///< of the attention kernels

/// @throws Error (runtime) if the attention kernels do not support rows of this layout: head_dim
/// must be at most kMaxAttentionHeadDim, and a multiple of 4 in float32, of 8 in 16 bits.
void check_attention_layout(const PageLayout& layout);

/// Computes the attention of jobs with several rows or with patterns; see AttentionJob.  q, out and
/// lse are in device memory.  float32 keys are computed in float32; 16-bit keys on the tensor
/// cores, with queries and probabilities rounded to the keys' type.  A row's result depends only on
/// its query and keys, and on whether its job has so few rows that their keys are split.
/// @throws Error (runtime) if the layout of a job's rows is not supported.
void attend_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs);

/// The number of tiles of 64 rows and 64 keys that attend_rows computes for the heads with a sparse
/// pattern.
std::int64_t count_pattern_tiles(Context& context, std::span<const AttentionJob* const> jobs);

}  // namespace turnbench::cuda
