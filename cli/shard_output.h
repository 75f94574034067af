#pragma once

#include <string>

#include "common/json.h"
#include "harness/store/shard_progress.h"

namespace turnbench {

/// "shard 1/3: 4 units, 2 done, 1 failed, 1 missing", from the JSON.
std::string describe_shard(const OrderedJson& progress);

/// True if the store has the results of all cells and dialogues of an experiment.
bool is_complete(const Store& store, const std::string& experiment);

/// What `run --shard` prints instead of tables, if other shards are missing: the shard's progress,
/// and how to obtain the tables.  JSON if `json`.
std::string shard_report(const Store& store, const std::string& experiment, const Shard& shard,
                         bool json);

}  // namespace turnbench
