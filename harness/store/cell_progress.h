#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// The number of a cell's dialogues that have run, and of all dialogues of its dataset.
struct CellProgress {
  std::size_t done = 0, total = 0;
  std::size_t pending() const { return total - done; }
};

/// The progress of an experiment's cells, by their keys.  Dialogues that --limit left out are
/// pending.
std::map<std::string, CellProgress> cell_progress(const Store& store,
                                                  const std::string& experiment);

}  // namespace turnbench
