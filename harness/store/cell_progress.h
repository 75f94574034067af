#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// The number of a cell's dialogues that have run, of these the ones with a failed turn, and of all
/// dialogues of its dataset.
struct CellProgress {
  std::size_t run = 0, failed = 0, total = 0;
  std::size_t done() const { return run - failed; }
  std::size_t pending() const { return total - run; }
};

/// How many dialogues a cell has to run: as many as its protocol card counts, or as are `stored` of
/// its dataset (a run with --limit stores what it runs).
std::size_t planned_dialogues(const Cell& cell, std::size_t stored);

/// The progress of an experiment's cells, by their keys.  Dialogues that --limit left out are
/// pending.
std::map<std::string, CellProgress> cell_progress(const Store& store,
                                                  const std::string& experiment);

}  // namespace turnbench
