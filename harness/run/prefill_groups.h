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
  bool is_full = false;  ///< full attention, the reference for fidelity
};

/// Prefills the unit's `dense_histories` that branches need.  This is separate from the turn's own
/// prefills, so that the times of the turn exclude it.
void prefill_dense_histories(Engine& engine, const Decoding& decoding, ActiveUnit& unit);

/// Adds the prefills that a unit's branches need for their turn to `work`: one for all branches
/// with an identical prefill of the prompt, and one for each branch that keeps its cache, follows
/// the dense history, or whose cell is isolated.  Branches that skip the turn need none.  If
/// fidelity is measured, there is one with full attention for each prompt, with or without
/// branches.  Returns the prefixes that branches share; the passes in `work` point to them.
std::map<PrefixKey, Sequence> add_prefills(Engine& engine, const Decoding& decoding,
                                           ActiveUnit& unit, std::vector<Prefill>& work);

}  // namespace turnbench
