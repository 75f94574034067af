#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// Numbers of a cell's dialogues: those that have run, those among them with a failed turn, and all
/// dialogues of its dataset.
struct CellProgress {
  std::size_t run = 0, failed = 0, total = 0;
  std::size_t done() const { return run - failed; }
  std::size_t pending() const { return total - run; }
};

/// The number of dialogues that a cell has to run: the number on its protocol card, or the number
/// `stored` for its dataset (a run with --limit stores only the dialogues that it runs).
std::size_t planned_dialogues(const Cell& cell, std::size_t stored);

/// The progress of an experiment's cells, by key.  Dialogues that --limit excluded are pending.
std::map<std::string, CellProgress> cell_progress(const Store& store,
                                                  const std::string& experiment);

}  // namespace turnbench
