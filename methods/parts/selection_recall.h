#pragma once

#include "inference/policy/policy.h"

namespace turnbench {

/// Recall of a selection, as a mean over the query heads of a layer: the share of the k tokens with
/// the head's highest attention that are among the k tokens that the selection reads for it.
/// Tokens whose attention is 0 in float32 have no rank and are not counted: for a head that attends
/// to three tokens, k is at most three.  view: of a decode step, so that its statistics have one
/// row.
double selection_recall(const LayerView& view, const Selection& selection);

}  // namespace turnbench
