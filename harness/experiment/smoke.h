#pragma once

#include "harness/experiment/locations.h"
#include "harness/experiment/manifest.h"

namespace turnbench {

/// The same experiment on small stand-ins, which runs end to end in seconds.  It checks that the
/// experiment runs; its numbers are not results.  Returns a valid manifest with its own text, named
/// NAME.smoke, whose `smoke` warning appears in every table and protocol card. docs/manifest.md
/// ("Smoke runs") lists the changes.  Labels stay the same, so that tables keep their rows and
/// columns, and published numbers their places.  Datasets whose files `locations` finds are used;
/// others are replaced.
Manifest smoke_manifest(const Manifest& manifest, const Locations& locations);

}  // namespace turnbench
