#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inference/devices/devices.h"

namespace turnbench {

/// Hashes of the sources that decide results, by part: "engine" (decoder, cache, statistics, CPU
/// kernels), "cuda", "prompts", "datasets", "metrics", "methods/NAME", "probes/NAME".
using SourceHashes = std::map<std::string, std::string>;

/// What this program is built from.
struct SourceState {
  std::string commit;     ///< empty outside of a checkout
  bool modified = false;  ///< the checkout had changes
  SourceHashes hashes;
};
/// Of the build; see cmake/source_hashes.cmake.
SourceState source_state();

/// Version, commit, sources and compiler of this program, on one line: no two builds that can give
/// different results have the same.
std::string build_description();

/// The machine and the build, as JSON: what a run's records refer to.
std::string environment_card(const std::vector<Device>& devices = {Device{}});

/// The sources that an environment card says its records were computed by; empty if it says none.
SourceHashes sources_of(std::string_view environment_card);

/// The parts that decide what a cell's answers, or a probe's values, are: without what its key has
/// hashes of (model, dialogues), and without its metric.  None for what was imported.
std::vector<std::string> deciding_parts(const std::string& method_canonical);

/// Those in which two builds differ.  "unknown sources" where `then` does not know its own.
std::vector<std::string> changed_parts(const std::string& method_canonical,
                                       const SourceHashes& then, const SourceHashes& now);

}  // namespace turnbench
