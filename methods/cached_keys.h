#pragma once

#include <vector>

#include "inference/backend.h"
#include "inference/policy.h"

namespace turnbench {

/// A copy of the keys of slots [first, end) of a set as float32: [end - first, head_dim], in host
/// memory.
std::vector<float> keys_on_host(Backend& backend, const KvHeadCache& set, int first, int end);

/// The same of all sets of a layer, side by side: [end - first, sets * head_dim].  pre_rope: those
/// before RoPE.
std::vector<float> layer_keys_on_host(const LayerView& view, int first, int end, bool pre_rope);

}  // namespace turnbench
