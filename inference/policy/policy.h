#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "inference/kv/device_needs.h"
#include "inference/kv/residency.h"
#include "inference/policy/cache_codec.h"
#include "inference/policy/cloned.h"
#include "inference/policy/eviction_policy.h"
#include "inference/policy/prefill_policy.h"
#include "inference/policy/selection_capabilities.h"
#include "inference/policy/selection_policy.h"

namespace turnbench {

/// The device memory that a selection policy requires for a layer at the end of a prompt.
inline DeviceNeeds demand_at(const SelectionPolicy& selection, const LayerView& view) {
  return selection.demand(prompt_size(view), &view);
}

/// Where keys and values are stored.
struct Placement {
  bool host = false;  ///< in host memory; the device has a working set for each layer
  Residency::Rule rule = Residency::Rule::kLru;
  /// Tokens of the device cache, per KV set and layer.  With kLru and kLfu, the buffer of a step is
  /// allocated in addition to the cache.  With kPrevious, a cache that is smaller than what a step
  /// loads is enlarged.  With kDemandLru, the cache must have room for what a step loads: 0 selects
  /// this size, and a smaller positive value is enlarged to it if the policy defines blocks
  /// (DeviceNeeds::block), and is an error otherwise.
  int cache_tokens = 0;
  int cache_block = 128;
  int insert_blocks = 32;  ///< kLru, kLfu: blocks that enter the cache after a step
};

/// The options of a layer's working set.  sets: KV sets of the layer; longest: tokens of the
/// largest one.  In each set, the pinned tokens and the cache each have at most about `longest` +
/// 4,096 slots; the 4,096 slots are a reserve for the answer.  The buffer of a step has at most
/// `longest` + 4,096 slots for each list of the set.  If an answer needs more, a new working set is
/// allocated.
/// @throws Error (input) if the placement's device cache is too small for the tokens that a step
/// loads under the cache rule.
Residency::Options working_set_options(const Placement& placement, const DeviceNeeds& needs,
                                       int sets, std::int32_t longest);

/// The policies and the codec of a method, each of which may be null, and the placement of its
/// cache.
struct Policies {
  std::unique_ptr<PrefillPolicy> prefill = {};
  std::unique_ptr<EvictionPolicy> eviction = {};
  std::unique_ptr<SelectionPolicy> selection = {};
  std::unique_ptr<CacheCodec> codec = {};
  Placement placement = {};
  std::string method = {};  ///< name of the method for messages; may be empty
  /// Query-agnostic compression: the eviction policy is called when a prompt has been computed up
  /// to its turn's question, and not at the prompt's end.
  bool evicts_before_question = false;
  /// If not 0, a prompt is computed in blocks of this many tokens, and the eviction policy is
  /// called after each of them as at the end of a prompt.
  int compress_block = 0;

  /// Copies of all parts: called when a sequence forks, and at the beginning of each sequence.
  /// @throws Error (runtime) if a part has no copy.
  Policies clone() const;
  /// Bytes of encoded rows; 0 without a codec.
  /// @throws Error (runtime) if they are more than a PageLayout can have.
  EncodedBytes encoded_bytes(int head_dim) const;
  /// The same during a prefill: 0 if rows stay elements until the prefill ends.
  EncodedBytes prefill_bytes(int head_dim) const {
    return row_codec() != nullptr ? encoded_bytes(head_dim) : EncodedBytes{};
  }
  /// The codec if it is of this kind; otherwise null.
  const RowCodec* row_codec() const { return dynamic_cast<const RowCodec*>(codec.get()); }
  const GroupCodec* group_codec() const { return dynamic_cast<const GroupCodec*>(codec.get()); }
  /// Traits of the selection policy.
  SelectionTraits traits() const { return selection ? selection->traits() : SelectionTraits{}; }
  /// Null unless the selection policy also selects during the prefill.
  PromptSelection* prompt_selection() const {
    auto* prompts = capability<PromptSelection>(selection.get());
    return prompts != nullptr && prompts->selects_in_prefill() ? prompts : nullptr;
  }
  /// The number of recent query rows that the policies need.
  int window() const { return std::max(eviction ? eviction->window() : 0, traits().window); }
  /// Whether decode steps may use `window_mass`.
  bool read_window_in_answers() const {
    return (evict_in_answers() && eviction->window() > 0) || traits().window > 0;
  }
  bool evict_in_answers() const { return eviction && eviction->evicts_in_answers(); }
  /// Whether the eviction has scoring passes for a prompt of this many tokens; by default, for long
  /// prompts.
  bool has_scoring_passes(int prompt_tokens = std::numeric_limits<int>::max()) const {
    return eviction && eviction->scoring_passes(prompt_tokens) != nullptr;
  }
  bool shifts_positions() const { return eviction && eviction->shifts_positions(); }
  bool selects_in_prefill() const { return prompt_selection() != nullptr; }
  /// Null unless layers may be offloaded while an answer is decoded.
  const OffloadsDuringDecode* offloads_during_decode() const {
    const auto* offloads = capability<OffloadsDuringDecode>(selection.get());
    return placement.host && offloads != nullptr && offloads->may_offload() ? offloads : nullptr;
  }
  /// Whether the prefill is sparse.
  bool has_sparse_prefill() const { return prefill != nullptr || selects_in_prefill(); }
  /// As PrefillPolicy::reuses_cached_prompt; true for a dense prefill.
  bool reuses_cached_prompt() const {
    if (const PromptSelection* prompts = prompt_selection()) return prompts->reuses_cached_prompt();
    return !prefill || prefill->reuses_cached_prompt();
  }
  /// Only the parts that affect the prefill.  A RowCodec is one of them, because later rows of the
  /// prompt read encoded rows.
  Policies prefill_part() const;
  bool pre_rope_keys() const { return shifts_positions() || traits().pre_rope_keys; }
};

}  // namespace turnbench
