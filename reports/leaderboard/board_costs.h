#pragma once

#include <string>
#include <vector>

#include "reports/leaderboard/leaderboard.h"
#include "reports/leaderboard/shared_terms.h"

namespace turnbench {

/// Adds the means of the counters over the turns of `terms`.  A cost is left out for a method that
/// lacks it under one of the conditions.
void add_costs(std::vector<LeaderboardRow>& rows, const BoardGrid& grid, const SharedTerms& terms);

/// Adds times and memory peaks of the ranked methods, over the isolated conditions that they share.
/// Returns a note on these conditions; empty if there are none.
std::string add_isolated_costs(std::vector<LeaderboardRow>& rows,
                               const std::vector<const BoardCell*>& isolated);

/// Marks the rows that are on the Pareto front of quality and a cost.
void mark_fronts(std::vector<LeaderboardRow>& rows, bool lower_is_better);

}  // namespace turnbench
