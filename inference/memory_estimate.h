#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/kv_cache.h"
#include "inference/model_config.h"
#include "inference/pass_size.h"

namespace turnbench {

/// Bytes of whole pages for `tokens` tokens in each of `sets` KV sets per layer.
std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens);

/// Bytes of activations and scratch of a pass, summed over `stages` stages.  scratch: bytes of one
/// stage, see Backend::scratch_bytes.
std::size_t workspace_bytes_of(const ModelConfig& config, const PassSize& pass, std::size_t scratch,
                               std::size_t stages = 1);

}  // namespace turnbench
