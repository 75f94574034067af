#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/shared_options.h"

namespace turnbench {

/// Settings of a run of manifests.
struct SweepTarget {
  std::string db;
  const SweepOptions& options;
  std::size_t limit = 0;  ///< dialogues of each dataset; 0: all
  bool retry = false;     ///< delete failed records first, so that they run again
};

/// Runs the missing work of each manifest and prints its table; as JSON, an array with one report
/// per manifest.  Sets `exit_code` to 1 if units failed.
void run_manifests(const std::vector<Manifest>& manifests, const SweepTarget& target,
                   const CommonOptions& common, int& exit_code);

}  // namespace turnbench
