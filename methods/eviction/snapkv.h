#pragma once

#include <memory>

#include "methods/parts/eviction_scorer.h"

namespace turnbench {

/// Attention of the rows of "window", pooled as "kernel" and "pool" require if the method has these
/// parameters.
std::shared_ptr<const EvictionScorer> snapkv_scorer(const Parameters& parameters);

}  // namespace turnbench
