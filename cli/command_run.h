#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared_options.h"

namespace turnbench {

/// The part of a manifest to run.
struct SweepPart {
  Manifest manifest;
  std::size_t limit = 0;            ///< dialogues of each dataset; 0: all
  std::optional<Shard> shard = {};  ///< only its units
};

/// Settings of a run.
struct SweepTarget {
  std::string db;
  const SweepOptions& options;
  bool retry = false;        ///< delete failed records first, so that they run again
  bool only_failed = false;  ///< with `retry`: run nothing else
};

/// Runs the missing work of each part and prints the tables of its manifest, or the progress of its
/// shard; as JSON, an array with one report per part.  Sets `exit_code` to 1 if units failed.
void run_parts(const std::vector<SweepPart>& parts, const SweepTarget& target,
               const CommonOptions& common, int& exit_code);

}  // namespace turnbench
