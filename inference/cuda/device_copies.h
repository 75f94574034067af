#pragma once

#include <span>

#include "inference/backend.h"
#include "inference/cuda/context.h"
#include "inference/memory.h"

namespace turnbench::cuda {

/// Copies within device memory that do not overlap, any number of any sizes, by one kernel.
void copy_bytes(Context& context, std::span<const Copy> copies);

/// Backend::append: rows of float keys and values into the pages of sets, rounded to the nearest of
/// their type, and their positions, by one kernel.
void append(Context& context, std::span<const AppendJob> jobs);

/// Backend::read_pre_rope_keys.
void read_pre_rope_keys(Context& context, const KvHeadCache& set, int first, MatrixView<float> out);

}  // namespace turnbench::cuda
