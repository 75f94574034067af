#pragma once

#include "common/thread_pool.h"
#include "inference/backend/backend.h"
#include "inference/model/memory.h"

namespace turnbench::cpu {

/// Measures the peak rates of all threads of the pool together: float32 multiply-adds in registers,
/// and sequential reads of `buffer`, which should be much larger than the caches.  Takes about 0.2
/// s.
Ceilings measure_ceilings(ThreadPool& pool, const Buffer& buffer);

}  // namespace turnbench::cpu
