#pragma once

#include <cstddef>

#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Measures the bandwidth of sequential reads from device memory, in bytes per second: the median
/// of several passes over `bytes` bytes, a multiple of 16, which should be much larger than the
/// caches.  Allocates the memory on the device and frees it again.
double measure_read_bytes(Context& context, std::size_t bytes = std::size_t{1} << 30);

}  // namespace turnbench::cuda
