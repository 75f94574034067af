#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace turnbench {

/// One of the parts into which the units of a manifest are divided: number `index` of `count`, from
/// 1.
struct Shard {
  int index = 1, count = 1;
};

/// The units of a manifest that one shard runs.
struct StoredShard {
  struct Unit {
    std::string key;  ///< as in Plan
    std::vector<std::string> cells, dialogues;
  };
  Shard shard;
  std::size_t limit = 0;  ///< --limit of the run: dialogues of each dataset; 0: all
  std::vector<Unit> units;
};

}  // namespace turnbench
