#pragma once

#include "harness/experiment/locations.h"
#include "harness/experiment/manifest.h"

namespace turnbench {

/// The same experiment on stand-ins, end to end in seconds: a check that it runs, never a result.
/// The manifest returned is a valid one with its own text, named NAME.smoke, whose `smoke` warning
/// every table and protocol card carries; docs/manifest.md ("Smoke runs") lists what changes.
/// Labels stay, so tables have the experiment's rows and columns, and published numbers their
/// places.  `locations` decides which datasets are real: those whose files are given.
Manifest smoke_manifest(const Manifest& manifest, const Locations& locations);

}  // namespace turnbench
