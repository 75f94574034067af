#include "inference/memory_estimate.h"

#include <algorithm>

namespace turnbench {

std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return pages * sets * layers * layout.bytes();
}

std::size_t workspace_bytes_of(const ModelConfig& c, const PassSize& pass, std::size_t scratch,
                               std::size_t stages) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, hidden = c.hidden,
                     ffn = c.ffn, wide = std::max({q + 2 * kv, 3 * ffn, hidden}),
                     block = std::min(pass.rows, kLinearBlockRows);
  const std::int64_t activations =
      pass.rows * (hidden + 2 * q + (pass.pre_rope_keys ? 3 : 2) * kv + c.head_dim + c.heads) +
      block * (hidden + wide);
  const std::int64_t logits = 2 * pass.sequences * c.vocab;  // as a matrix, and one by one
  return stages * (activations * sizeof(float) + scratch) + logits * sizeof(float);
}

}  // namespace turnbench
