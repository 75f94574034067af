#pragma once

#include <span>

#include "common/thread_pool.h"
#include "inference/backend/backend.h"

namespace turnbench::cpu {

/// Adds attention mass along lines; see LineMassJob.  If called from a task of the pool, it runs on
/// the calling thread only.
void add_line_mass(ThreadPool& pool, float scale, std::span<const LineMassJob> jobs);

}  // namespace turnbench::cpu
