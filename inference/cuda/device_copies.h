#pragma once

#include <span>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"
#include "inference/model/memory.h"

namespace turnbench::cuda {

// Copies within device memory.  For copies between host and device see host_transfers.h.

/// Executes any number of copies of any sizes with one kernel.  They must not overlap.
void copy_bytes(Context& context, std::span<const Copy> copies);

/// See Backend::append.  Writes keys, values and positions into the pages of sets, rounded to their
/// type, with one kernel.
void append(Context& context, std::span<const AppendJob> jobs);

}  // namespace turnbench::cuda
