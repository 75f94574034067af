#include "inference/memory_estimate.h"

#include <algorithm>

namespace turnbench {

std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return static_cast<std::size_t>(pages * sets * layers) * layout.bytes();
}

std::size_t workspace_bytes_of(const ModelConfig& c, const PassSize& pass, std::size_t scratch,
                               std::size_t stages) {
  const auto q = static_cast<std::size_t>(c.heads * c.head_dim),
             kv = static_cast<std::size_t>(c.kv_heads * c.head_dim),
             hidden = static_cast<std::size_t>(c.hidden), vocab = static_cast<std::size_t>(c.vocab),
             head_dim = static_cast<std::size_t>(c.head_dim),
             heads = static_cast<std::size_t>(c.heads),
             wide = std::max({q + 2 * kv, 3 * static_cast<std::size_t>(c.ffn), hidden}),
             block = std::min(pass.rows, kActivationRows);
  const std::size_t activations =
      pass.rows * (hidden + 2 * q + (pass.pre_rope_keys ? 3 : 2) * kv + head_dim + heads) +
      block * (hidden + wide);
  const std::size_t logits = 2 * pass.sequences * vocab;  // as a matrix, and one by one
  return stages * (activations * sizeof(float) + scratch) + logits * sizeof(float);
}

}  // namespace turnbench
