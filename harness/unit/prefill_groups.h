#pragma once

#include <map>
#include <vector>

#include "harness/unit/active_unit.h"

namespace turnbench {

/// A prompt to prefill, and the branches that fork from it.
struct Prefill {
  ActiveUnit* unit = nullptr;
  Pass pass;
  std::vector<int> tokens;
  std::vector<Branch*> forks;
  bool is_full = false;  ///< full attention's, which fidelity is measured against
};

/// Adds the prefills that a unit's branches need for their turn to `work`: one for all branches
/// whose prompt is prefilled alike, and one for each branch that keeps its cache or whose cell is
/// isolated.  Where fidelity is measured there is one with full attention for each prompt, with or
/// without branches.  Returns the prefixes that branches share; the passes in `work` point to them.
std::map<PrefixKey, Sequence> add_prefills(Engine& engine, const Decoding& decoding,
                                           ActiveUnit& unit, std::vector<Prefill>& work);

}  // namespace turnbench
