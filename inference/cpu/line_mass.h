#pragma once

#include <span>

#include "common/thread_pool.h"
#include "inference/backend/backend.h"

namespace turnbench::cpu {

/// Adds attention mass along lines; see LineMassJob.  Tasks of the pool may call it too; then it
/// runs on their thread alone.
void add_line_mass(ThreadPool& pool, float scale, std::span<const LineMassJob> jobs);

}  // namespace turnbench::cpu
