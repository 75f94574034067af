#pragma once

#include <cstddef>

#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Bytes per second that a kernel reads from the device's memory, one after the other: the median
/// of several passes over `bytes` bytes, a multiple of 16, which should be much more than the
/// caches hold.  The bytes come from the device itself and are given back before this returns.
double measure_read_bytes(Context& context, std::size_t bytes = std::size_t{1} << 30);

}  // namespace turnbench::cuda
