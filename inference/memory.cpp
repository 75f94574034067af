#include "inference/memory.h"

#include <algorithm>

#include "inference/cpu/attention_state.h"

namespace turnbench {

std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return static_cast<std::size_t>(pages * sets * layers) * layout.bytes();
}

std::size_t workspace_bytes_of(const ModelConfig& c, const PassSize& pass, int threads,
                               std::size_t stages) {
  const auto q = static_cast<std::size_t>(c.heads * c.head_dim),
             kv = static_cast<std::size_t>(c.kv_heads * c.head_dim),
             hidden = static_cast<std::size_t>(c.hidden), vocab = static_cast<std::size_t>(c.vocab),
             head_dim = static_cast<std::size_t>(c.head_dim),
             heads = static_cast<std::size_t>(c.heads),
             kv_heads = static_cast<std::size_t>(c.kv_heads),
             wide = std::max({q + 2 * kv, 3 * static_cast<std::size_t>(c.ffn), hidden}),
             block = std::min(pass.rows, kActivationRows);
  const std::size_t activations =
      pass.rows * (hidden + 2 * q + (pass.raw_keys ? 3 : 2) * kv + head_dim + heads) +
      block * (hidden + wide);
  const std::size_t logits = 2 * pass.sequences * vocab;           // as a matrix, and one by one
  const auto packed = [&](std::size_t tokens, std::size_t sets) {  // each ends in a part of a tile
    return (tokens / cpu::kTile + sets) * cpu::tile_floats(c.head_dim);
  };
  const std::size_t attention =
      std::max(packed(pass.longest, 1),
               std::min(kPackedFloats, packed(pass.context, pass.sequences) * kv_heads)) +
      static_cast<std::size_t>(threads) *
          cpu::task_floats(c.head_dim, heads / kv_heads * cpu::kStripRows);
  return (stages * (activations + attention) + logits) * sizeof(float);
}

}  // namespace turnbench
