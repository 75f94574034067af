#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/store/shard.h"
#include "harness/store/store.h"

namespace turnbench {

/// Numbers of a shard's units: with all results, with a failed turn, with missing results.
struct ShardProgress {
  Shard shard;
  std::size_t units = 0, done = 0, failed = 0, missing = 0;
};

/// The progress of the shards of an experiment's latest manifest that the store has run.
std::vector<ShardProgress> shard_progress(const Store& store, const std::string& experiment);

/// The failed records of an experiment that belong to units of a shard.
std::vector<Store::Failure> failures_of(const Store& store, const std::string& experiment,
                                        const StoredShard& shard);

}  // namespace turnbench
