#pragma once

#include <string>

#include "cli/shared_options.h"

namespace turnbench {

/// `status DIR`: prints the progress of a sweep on a Slurm cluster, also while its jobs run.
/// Returns the exit code: 0 if all units are done, 1 if some failed or are missing.
/// @throws Error (input) if DIR is not the folder of a sweep
int status_of_directory(const std::string& directory, const CommonOptions& common);

}  // namespace turnbench
