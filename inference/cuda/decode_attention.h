#pragma once

#include <span>

#include "inference/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Attention of jobs of a single row without patterns, over all the keys that the row sees or over
/// those of its `slots`; q, out and lse are in device memory.  A row that sees nothing gives 0 and
/// a log-sum-exp of minus infinity.  Jobs of one layout run together: two launches, whatever their
/// number.  The rows of a cache must be multiples of 16 bytes and at most 256 elements, or this
/// throws a runtime error.  A row's bits depend on its own job alone.
void attend_single_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs);

}  // namespace turnbench::cuda
