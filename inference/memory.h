#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/kv_cache.h"
#include "inference/model_config.h"

namespace turnbench {

/// Bytes of the keys and values of `tokens` tokens in `sets` sets of each layer, in whole pages.
std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens);

/// The size of one forward pass of any number of sequences.
struct PassSize {
  std::size_t rows = 0;       ///< of all sequences
  std::size_t sequences = 0;  ///< each wants the logits of its last row
  std::size_t context = 0;    ///< cached tokens when the pass ends, of all sequences
  std::size_t longest = 0;    ///< of one of them
  bool raw_keys = false;      ///< keys before RoPE are kept too
};

/// Bytes of the activations and the scratch that a pass takes: O(rows + longest context), in each
/// stage.
std::size_t workspace_bytes_of(const ModelConfig& config, const PassSize& pass, int threads,
                               std::size_t stages = 1);

/// Rows that go through the linear layers at a time: enough to amortise the walk over the weights,
/// few enough that the widest activation stays small.
constexpr std::size_t kActivationRows = 768;

/// Packed keys and values that attention holds at a time, unless one set alone needs more: what is
/// worth keeping in the outer caches.
constexpr std::size_t kPackedFloats = std::size_t{8} << 20;

}  // namespace turnbench
