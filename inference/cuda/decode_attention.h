#pragma once

#include <span>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Computes the attention of jobs with a single row and without patterns (decode steps), over all
/// keys that the row sees, or those of them in `slots`. q, out and lse are in device memory.  A row
/// that sees no key gives 0 and a log-sum-exp of minus infinity.  All jobs of one page layout take
/// two launches.  A row's result is bit-identical regardless of the other jobs.
/// @throws Error (runtime) if a row of the cache is not a multiple of 16 bytes or has more than 256
/// elements.
void attend_single_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs);

}  // namespace turnbench::cuda
