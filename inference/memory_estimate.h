#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/kv_cache.h"
#include "inference/model_config.h"
#include "inference/pass_size.h"

namespace turnbench {

/// Bytes of the keys and values of `tokens` tokens in `sets` sets of each layer, in whole pages.
std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens);

/// Bytes of the activations and the scratch that a pass takes: O(rows + longest context), in each
/// of `stages` stages.  `scratch`: of one stage, as its backend says.
std::size_t workspace_bytes_of(const ModelConfig& config, const PassSize& pass, std::size_t scratch,
                               std::size_t stages = 1);

}  // namespace turnbench
