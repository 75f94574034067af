#include "inference/engine/memory_estimate.h"

#include <algorithm>

#include "common/error.h"

namespace turnbench {

std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return pages * sets * layers * layout.bytes();
}

AnswerNeeds answer_needs(const Policies& policies, const ModelShape& shape,
                         const PageLayout& layout, int sets, std::int32_t tokens,
                         int prompt_tokens) {
  AnswerNeeds out;
  const SelectionPolicy* selection = policies.selection.get();
  const bool host = policies.placement.host,
             rebuilds = capability<KeyRebuilder>(selection) != nullptr;
  PromptSize size{shape, layout.dtype, 0, sets, tokens, prompt_tokens};
  for (size.layer = 0; size.layer < shape.layers; ++size.layer) {
    const DeviceNeeds needs =
        selection ? selection->demand(size, nullptr) : reading_everything(tokens);
    out.index += needs.index_bytes;
    if (!host && !rebuilds) continue;
    if (needs.everything) continue;
    out.offloaded_layers += host;
    if (policies.traits().reads_pinned_only) {
      out.working_sets += kv_bytes_of(layout, 1, sets, needs.pinned_tokens);
      continue;
    }
    const Residency::Options options = with_error_prefix(policies.method, [&] {
      return working_set_options(policies.placement, needs, sets, tokens);
    });
    const std::int32_t slots = Residency::make(options)->device_slots();
    out.working_sets += kv_bytes_of(layout, 1, sets, slots);
  }
  return out;
}

PageLayout stored_layout(PageLayout plain, const Policies& policies) {
  plain.encoded = policies.encoded_bytes(plain.head_dim);
  return plain;
}

PageLayout prefill_layout(PageLayout plain, const Policies& policies) {
  plain.encoded = policies.prefill_bytes(plain.head_dim);
  return plain;
}

std::int64_t newest_tokens(const Policies& policies, std::int64_t tokens) {
  const GroupCodec* codec = policies.group_codec();
  if (codec == nullptr) return 0;
  const int all = static_cast<int>(tokens);
  const int encoded =
      std::min(codec->encoded_rows(KvRow::kKey, all), codec->encoded_rows(KvRow::kValue, all));
  return all - encoded / kPageTokens * kPageTokens;  // whole pages are released
}

std::size_t decoded_bytes_of(const Policies& policies, const ModelShape& shape, PageLayout layout,
                             int sets, std::int64_t tokens, bool prompt_end) {
  if (!policies.codec) return 0;
  layout.encoded = {};
  std::size_t out = kv_bytes_of(layout, 1, sets, tokens);
  // The tokens that stay after a prompt, for the index (groups are not encoded before); in a step,
  // the working sets.
  if (policies.placement.host ||
      (policies.selection && prompt_end && policies.row_codec() != nullptr))
    out += kv_bytes_of(layout, 1, policies.eviction ? shape.heads : sets, tokens);
  return out;
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
