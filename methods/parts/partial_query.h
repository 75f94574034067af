#pragma once

#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The queries of a set, of which only some dimensions are read.
struct PartialQuery {
  std::vector<int> dims;       ///< ascending
  std::vector<float> rows;     ///< [rows, head_dim]
  std::vector<float> factors;  ///< [rows], of the scores; empty: all 1
};

/// The queries of a decode step for each set of a layer, reduced to the `dims` dimensions with the
/// largest sums of absolute values over the query heads (Ribar et al., SparQ, 2024, section 3). The
/// factor of a head compensates for the omitted part of its query.
std::vector<PartialQuery> partial_queries(const LayerView& view, int dims);

}  // namespace turnbench
