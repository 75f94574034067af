#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/store/build.h"
#include "harness/store/store.h"

namespace turnbench {

/// Results of one cell that other sources than those of this program decided.
struct StaleCell {
  Cell cell;
  std::size_t dialogues = 0;  ///< of them
  /// Parts of the program that have changed: see SourceHashes.  "metrics" touches the scores alone,
  /// which `run` computes anew from the stored answers; "datasets" the dialogues, which `run` makes
  /// anew and compares.
  std::set<std::string> changed;
};

/// The cells of an experiment that have such results, in table order.  `now`: the sources that
/// count as unchanged.
std::vector<StaleCell> stale_cells(const Store& store, const std::string& experiment,
                                   const SourceHashes& now = source_state().hashes);

/// What is stale and why, on one line; empty if nothing is.
std::string describe(const std::vector<StaleCell>& stale);

}  // namespace turnbench
