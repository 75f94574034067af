#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"

namespace turnbench {

// What every format says under its tables, as plain text.

/// What the tables' numbers are.  `differences` says where those to the baseline stand ("in
/// parentheses"), `counters` whether columns of counters are shown.
std::string caption(const Results& results, const std::vector<Pivot>& pivots,
                    const std::string& differences, bool counters);

/// How many of their dialogues the cells of each incomplete dataset have run: "Partial: tiny-fact 2
/// of 8 dialogues."; "" if all are complete.
std::string progress_note(const Results& results);

/// Which results other sources decided than those of this program; "" if none.
std::string stale_note(const Results& results);

/// What has not run, is stale, was cut, failed or has no value, and published numbers without a
/// place.
std::vector<std::string> notes(const Results& results);

}  // namespace turnbench
