#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/backend/pass_size.h"
#include "inference/kv/kv_cache.h"
#include "inference/model/model_config.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Bytes of whole pages for `tokens` tokens in each of `sets` KV sets per layer.
std::size_t kv_bytes_of(const PageLayout& layout, int layers, int sets, std::int64_t tokens);

/// Memory of decode steps in addition to the pages of the cached tokens.
struct AnswerNeeds {
  int offloaded_layers = 0;      ///< layers whose tokens are in host memory
  std::size_t working_sets = 0;  ///< bytes, on the device
  std::size_t index = 0;         ///< bytes, including those needed to build it
};
/// Estimates the needs after a prompt of `prompt_tokens` tokens, of which each of the `sets` KV
/// sets per layer has `tokens`.  layout: of the pages.
AnswerNeeds answer_needs(const Policies& policies, const ModelShape& shape,
                         const PageLayout& layout, int sets, std::int32_t tokens,
                         int prompt_tokens);

/// The layout of the pages in which a sequence with these policies stores its tokens; with a
/// GroupCodec, of those that are encoded.
PageLayout stored_layout(PageLayout plain, const Policies& policies);
/// The same until the end of the first prompt.
PageLayout prefill_layout(PageLayout plain, const Policies& policies);
/// With a GroupCodec: tokens that are elements while each set has `tokens` tokens; otherwise 0.
std::int64_t newest_tokens(const Policies& policies, std::int64_t tokens);
/// Bytes of the decoded copies that a pass of one sequence needs, for one layer at a time; 0
/// without a codec.  tokens: of each of the `sets` KV sets after the pass.  layout: of the stored
/// pages.  prompt_end: a prompt ends with the pass.
std::size_t decoded_bytes_of(const Policies& policies, const ModelShape& shape, PageLayout layout,
                             int sets, std::int64_t tokens, bool prompt_end);

/// Bytes of activations and scratch of a pass, summed over `stages` stages.  scratch: bytes of one
/// stage, see Backend::scratch_bytes.
std::size_t workspace_bytes_of(const ModelConfig& config, const PassSize& pass, std::size_t scratch,
                               std::size_t stages = 1);

}  // namespace turnbench
