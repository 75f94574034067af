#pragma once

#include <span>

#include "common/thread_pool.h"
#include "inference/backend.h"

namespace turnbench::cpu {

/// See MassJob.  A single job runs in the calling thread.
void add_mass(ThreadPool& pool, float scale, std::span<const MassJob> jobs);

}  // namespace turnbench::cpu
