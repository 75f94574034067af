#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/sqlite.h"

namespace turnbench {

/// The sources of the results of stores that are merged.  All stores must have the results of each
/// part of the program (see SourceHashes) from the same sources.
class MergedSources {
 public:
  /// Adds the sources of a store's results.
  /// @throws Error (runtime) that names the parts which differ from those of an earlier store.
  void add(const Database& store);

 private:
  /// By part: the hashes; an empty one for unknown sources, and for the part "cuda" if no GPU was
  /// used.
  using Parts = std::map<std::string, std::set<std::string>>;
  static Parts parts_of(const Database& store);

  std::vector<std::pair<std::string, Parts>> stores_;  ///< path, parts
};

}  // namespace turnbench
