#pragma once

#include <span>

#include "common/thread_pool.h"
#include "inference/backend.h"

namespace turnbench::cpu {

/// See LineMassJob.  Any thread may call it, also a task of the pool: then it works alone.
void add_line_mass(ThreadPool& pool, float scale, std::span<const LineMassJob> jobs);

}  // namespace turnbench::cpu
