#pragma once

#include <cstddef>

#include "inference/cuda/context.h"
#include "inference/cuda/gemm.h"

namespace turnbench::cuda {

/// Measures the bandwidth of sequential reads from device memory, in bytes per second: the median
/// of several passes over `bytes` bytes, a multiple of 16, which should be much larger than the
/// caches.  Allocates the memory on the device and frees it again.
double measure_read_bytes(Context& context, std::size_t bytes = std::size_t{1} << 30);

/// Measures operations per second, 2 per multiply-add, of a bfloat16 product of two [size, size]
/// matrices: the median of several runs.
double measure_flops(Context& context, Gemm& gemm, std::size_t size = 8192);

}  // namespace turnbench::cuda
