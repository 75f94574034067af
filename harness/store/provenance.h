#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/devices/devices.h"

namespace turnbench {

/// Hashes of the sources that determine results, of their tokens without comments and white space,
/// by part of the program: "engine" (decoder, cache, statistics, CPU kernels), "cuda", "prompts",
/// "datasets", "metrics", "methods/NAME", "probes/NAME".
using SourceHashes = std::map<std::string, std::string>;

/// The sources that a program is built from.
struct SourceState {
  std::string commit;     ///< empty if they were not in a git checkout
  bool modified = false;  ///< the checkout had uncommitted changes
  SourceHashes hashes;
};
/// The sources of this program, as recorded by tools/source_hashes at build time.
SourceState source_state();

/// Version, commit, sources and compiler of this program, on one line.  Builds that can give
/// different results have different descriptions.
std::string build_description();

/// The machine and the build as JSON, and the number of threads if results depend on it (the times
/// of isolated cells).  The records of a run refer to it.
std::string environment_card(const std::vector<Device>& devices = {Device{}},
                             std::optional<int> threads = {});

/// The hashes of the sources in an environment card; empty if it has none.
SourceHashes sources_of(std::string_view environment_card);

/// The parts of the program that determine a cell's answers or a probe's values.  Model and
/// dialogues are excluded because their hashes are in the cell's key, and so is the metric.  Empty
/// for imported cells.
std::vector<std::string> deciding_parts(const std::string& method_canonical);

/// The deciding parts in which two builds differ; "unknown sources" if `then` is empty.
std::vector<std::string> changed_parts(const std::string& method_canonical,
                                       const SourceHashes& then, const SourceHashes& now);

}  // namespace turnbench
