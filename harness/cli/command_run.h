#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/cli/shared_options.h"

namespace turnbench {

/// Runs what the store lacks of each manifest and prints its table; as JSON one document, an array
/// if there are several.  Sets `exit_code` to 1 if units failed.
void run_manifests(const std::vector<Manifest>& manifests, const std::string& db,
                   const SweepOptions& options, std::size_t limit, const CommonOptions& common,
                   int& exit_code);

}  // namespace turnbench
