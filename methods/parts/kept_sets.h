#pragma once

#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// One kept set of a layer (or one selection): the query heads that read it, and the number of
/// cached tokens to choose from.
struct KeptSet {
  int first_head = 0, heads = 1;       ///< query heads first_head .. first_head + heads - 1
  int tokens = 0;                      ///< n
  const KvHeadCache* cache = nullptr;  ///< of the first head
};

/// The layer's kept sets: one per cached set, or one per query head.
std::vector<KeptSet> kept_sets(const LayerView& view, bool per_query_head);
/// All query heads of the layer.  All sets must hold the same tokens.
KeptSet whole_layer(const LayerView& view);

}  // namespace turnbench
