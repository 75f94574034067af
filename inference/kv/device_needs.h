#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "inference/kv/kv_cache.h"
#include "inference/kv/slot_copy.h"

namespace turnbench {

/// What the decode steps of a turn need on the device for an offloaded layer.
struct DeviceNeeds {
  bool everything = false;  ///< all tokens: the layer is not offloaded until the next prompt
  /// Pinned tokens per set in a step.  Tokens of the answer may be pinned in addition, which
  /// creates a new working set.
  std::int32_t pinned_tokens = 1;
  /// Maximal number of other tokens that the lists of a set select together.  The engine refuses a
  /// step that reads more than these, the pinned tokens and the tokens of the answer so far.
  std::int32_t step_tokens = 0;
  /// Slot at which block 0 of the device cache starts.
  std::int32_t first = 0;
  /// Tokens per block if steps read whole blocks; 0: the block size of the placement.  Under rules
  /// that load everything a step reads into the cache (kDemandLru, kPrevious), each of
  /// the `step_tokens` tokens may then be in a separate block, so the cache has room for
  /// `step_tokens` blocks.
  int block = 0;
  int lists_per_set = 1;
  /// Rule kPrevious: each list has separate device slots for its share of `step_tokens`.
  bool per_list = false;
  /// The keys that are transferred for tokens that are not pinned.  kPreRope: selected tokens that
  /// are not pinned are beyond the maximal distance (SelectionTraits::max_distance).
  KeyRows keys = KeyRows::kAll;
  /// Upper bound of the bytes of the layer's index, both while it is built and afterwards.
  std::size_t index_bytes = 0;
};

/// The pinned tokens of KV set `set`, which has `tokens` tokens: ascending, disjoint ranges, the
/// last of which ends with the newest token.
using PinnedSlots = std::function<std::vector<SlotRange>(int set, int tokens)>;

/// The needs of steps that may read all of `tokens` cached tokens.
DeviceNeeds reading_everything(std::int32_t tokens);

}  // namespace turnbench
