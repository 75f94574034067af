#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "inference/kv/kv_cache.h"
#include "inference/kv/residency.h"

namespace turnbench {

/// What the decode steps of a turn need on the device if keys and values are in host memory.
struct DeviceNeeds {
  bool everything = false;  ///< all tokens: nothing is offloaded until the next prompt
  /// Tokens of each set that a step has pinned; tokens of the answer may be pinned on top, in a new
  /// working set.
  std::int32_t pinned_tokens = 1;
  /// Most other tokens that the lists of a set select together.  The engine refuses a step that
  /// reads more than that, the pinned tokens and the tokens of the answer so far.
  std::int32_t step_tokens = 0;
  /// Slot of the first token that blocks of the device cache are counted from.
  std::int32_t first = 0;
  /// Tokens of these blocks, where steps read whole blocks; 0: as the placement says.  Of a cache
  /// that must have all that a step reads (rules kDemandLru, kDemandMass, kPrevious) each of
  /// `step_tokens` may then be in a block of its own: it has room for `step_tokens` blocks.
  int block = 0;
  int lists_per_set = 1;
  /// Rule kPrevious: each list has device slots of its own, for its part of `step_tokens`.
  bool per_list = false;
  /// The keys of tokens that are not pinned.  kPreRope: what lists select of them is beyond the
  /// greatest distance.
  KeyRows keys = KeyRows::kAll;
  /// Bytes at most of the index of the layer, beside the cache, while it is built or after that.
  std::size_t index_bytes = 0;
};

/// The tokens of KV set `set`, which has `tokens` tokens, that are on the device in any case:
/// ascending and disjoint ranges, the last of which ends with the newest token.
using PinnedSlots = std::function<std::vector<SlotRange>(int set, int tokens)>;

/// What steps need that may read all of `tokens` cached tokens.
DeviceNeeds reading_everything(std::int32_t tokens);

}  // namespace turnbench
