#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/store/provenance.h"
#include "harness/store/store.h"

namespace turnbench {

/// A cell with results of other sources than this program's.
struct StaleCell {
  Cell cell;
  std::size_t dialogues = 0;  ///< number of dialogues with such results
  /// Parts of the program that have changed (see SourceHashes).  "metrics" affects scores only:
  /// `run` scores the stored answers again.  "datasets" affects dialogues: `run` builds them again
  /// and compares them.
  std::set<std::string> changed;
};

/// The stale cells of an experiment, in table order.  `now`: the sources to compare with.
std::vector<StaleCell> stale_cells(const Store& store, const std::string& experiment,
                                   const SourceHashes& now = source_state().hashes);

/// The stale results and the reasons, on one line; empty if there are none.
std::string describe(const std::vector<StaleCell>& stale);

}  // namespace turnbench
