#pragma once

#include <string>
#include <vector>

#include "reports/leaderboard/shared_terms.h"

namespace turnbench {

/// Which results a leaderboard leaves out, and what limits the others: failed, stale, partial and
/// smoke results.
std::vector<std::string> board_notes(const BoardCells& all, const BoardGrid& grid,
                                     const SharedTerms& terms);

/// Conditions, dataset by dataset: "tiny-fact (begin, end), tiny-hop (end)".
std::string describe(const std::vector<const BoardCondition*>& conditions);

}  // namespace turnbench
