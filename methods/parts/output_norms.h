#pragma once

#include <vector>

#include "methods/parts/kept_sets.h"

namespace turnbench {

/// The size of each token's contribution to the layer's output: the L1 norm of W v, where v is the
/// token's value and W the part of the output projection that reads the query head; a mean over the
/// query heads of the kept set.  Returns [set.tokens].  To be called at the end of a prompt, when
/// the backend can read the set.
std::vector<float> output_norms(const LayerView& view, const KeptSet& set);

}  // namespace turnbench
