#pragma once

#include "inference/policy/policy.h"

namespace turnbench {

/// Mean over the query heads of a layer: the share of the k tokens with the head's highest
/// attention that are among the k tokens that the selection reads for it.  Tokens whose attention
/// is 0 in float32 have no rank and do not count: of a head that attends to three tokens, k is
/// three at most.  `view` is the step's, and its statistics know one row.
double selection_recall(const LayerView& view, const Selection& selection);

}  // namespace turnbench
