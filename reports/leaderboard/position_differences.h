#pragma once

#include <vector>

#include "reports/leaderboard/leaderboard.h"
#include "reports/leaderboard/shared_terms.h"

namespace turnbench {

/// Sets `begin_minus_end` and `middle_minus_end`: the paired differences between the scores of a
/// method at two positions of the question, over the datasets that have both.  All differences of
/// the leaderboard are one family.  `rows`: of `terms.methods`, in this order.
void add_position_differences(std::vector<LeaderboardRow>& rows, const BoardGrid& grid,
                              const SharedTerms& terms);

}  // namespace turnbench
