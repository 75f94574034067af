#pragma once

#include <span>

#include "inference/backend.h"
#include "inference/buffer.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Copies within device memory that do not overlap, any number of any sizes, by one kernel.
void copy_bytes(Context& context, std::span<const Copy> copies);

/// Backend::append: rows of float keys and values into the pages of sets, rounded to the nearest of
/// their type, and their positions, by one kernel.
void append(Context& context, std::span<const AppendJob> jobs);

/// Backend::read_raw_keys.
void read_raw_keys(Context& context, const KvSet& set, int first, int rows, float* out);

}  // namespace turnbench::cuda
