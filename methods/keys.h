#pragma once

#include <vector>

#include "inference/backend.h"

namespace turnbench {

/// A copy of the keys of slots [first, end) of a set as float32: [end - first, head_dim], in host
/// memory.
std::vector<float> keys_on_host(Backend& backend, const KvHeadCache& set, int first, int end);

}  // namespace turnbench
