#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/experiment/prompt_lengths.h"
#include "harness/store/shard.h"

namespace turnbench {

/// The cost of a unit in 10^6 operations of its planned prefills and answers, at least 1.  It
/// depends neither on the machine nor on measured speeds: integers of products, which every build
/// rounds alike.  An answer token counts as several prompt tokens, because a decode step reads all
/// weights for the rows of a few branches.
std::int64_t relative_cost(const Plan& plan, const Unit& unit, PlannedLengths& lengths);
std::int64_t relative_cost(const Plan& plan, const ProbeUnit& unit, PlannedLengths& lengths);

/// A unit to be assigned to a shard.
struct WeightedUnit {
  std::string key;
  std::int64_t cost = 0;
};
/// The shard of each unit, from 1 to `count`: by decreasing cost, each unit goes to the shard with
/// the lowest total (longest processing time first); units of equal cost are ordered by key.  The
/// totals of two shards differ by at most the largest cost.
std::vector<int> assign_shards(std::span<const WeightedUnit> units, int count);

/// Drops the units of a complete plan that belong to other shards of its manifest.  Cells that
/// share prefills are in one unit, so they stay together.  Returns the units of the shard.
StoredShard keep_shard(Plan& plan, const Shard& shard, PlannedLengths& lengths);

}  // namespace turnbench
