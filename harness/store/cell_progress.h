#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// Dialogues of a cell: how many have run, of how many that its dataset has.
struct CellProgress {
  std::size_t done = 0, total = 0;
  std::size_t pending() const { return total - done; }
};

/// By the key of each cell of an experiment.  Also a run with --limit leaves the rest pending.
std::map<std::string, CellProgress> cell_progress(const Store& store,
                                                  const std::string& experiment);

}  // namespace turnbench
