#pragma once

#include "common/json.h"
#include "harness/experiment/manifest.h"

namespace turnbench {

/// Reads one element of a manifest's `tables`.  All other keys of `manifest` have been read.
/// @throws Error (input) for invalid values.
TableSpec parse_table(const JsonView& json, const Manifest& manifest, ManifestUse use);

}  // namespace turnbench
