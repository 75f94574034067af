#pragma once

#include <map>
#include <vector>

#include "harness/run/active_unit.h"

namespace turnbench {

/// A prompt to prefill, and the branches that fork from it.
struct Prefill {
  ActiveUnit* unit = nullptr;
  Pass pass;
  std::vector<int> tokens;
  std::vector<Branch*> forks;
  bool is_full = false;  ///< full attention's, which fidelity is measured against
};

/// Makes a unit's `dense_histories` as far as branches follow them: prefills of their own, before
/// those of the turn, so that times of the turn do not have them.
void prefill_dense_histories(Engine& engine, const Decoding& decoding, ActiveUnit& unit);

/// Adds the prefills that a unit's branches need for their turn to `work`: one for all branches
/// whose prompt is prefilled alike, and one for each branch that keeps its cache, follows the dense
/// history, or whose cell is isolated.  Branches that skip the turn need none.  Where fidelity is
/// measured there is one with full attention for each prompt, with or without branches.  Returns
/// the prefixes that branches share; the passes in `work` point to them.
std::map<PrefixKey, Sequence> add_prefills(Engine& engine, const Decoding& decoding,
                                           ActiveUnit& unit, std::vector<Prefill>& work);

}  // namespace turnbench
