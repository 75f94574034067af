#pragma once

#include "reports/comparison/compared_cells.h"

namespace turnbench {

/// Adds the `most` turns with the largest differences in each direction, at most one of each
/// dialogue, and counts the turns on which both methods give the same answer.
void add_examples(MethodComparison& comparison, const Store& store,
                  const std::vector<ComparedCells>& cells,
                  const std::vector<std::vector<int>>& lengths, std::size_t most);

}  // namespace turnbench
