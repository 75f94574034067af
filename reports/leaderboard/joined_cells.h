#pragma once

#include "reports/leaderboard/board_cells.h"

namespace turnbench {

/// Adds the results of the same cell in another store.  A dialogue that both stores have counts
/// once; if it failed in one of them only, the other results are kept.
/// @throws Error (input) if the two stores have different results of a dialogue, other than a
/// failure.
void join_cells(BoardCell& known, const Store& known_store, const BoardCell& more,
                const Store& more_store);

}  // namespace turnbench
