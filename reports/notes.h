#pragma once

#include <string>
#include <vector>

#include "reports/entry_columns.h"
#include "reports/pivot.h"

namespace turnbench {

// The text below the tables of every format, as plain text.

/// Explains the numbers in the tables.  `differences` is the place of the differences to the
/// baseline ("in parentheses"); `counters` is true if columns of counters are shown; `columns` are
/// those of entries; `scales` is false if the tables name their scales themselves.
std::string caption(const std::vector<Pivot>& pivots, const std::string& differences, bool counters,
                    const EntryColumns& columns = {}, bool scales = true);

/// For each incomplete dataset, how many of its dialogues the cells have run: "Partial: tiny-fact 2
/// of 8 dialogues."; "" if all are complete.
std::string progress_note(const Results& results);
/// The same for some of its cells.
std::string progress_note(const Results& results, const std::vector<Cell>& cells);

/// Names the results that were computed by other sources than this program's; "" if there are none.
std::string stale_note(const Results& results);

/// Warnings to print with a CSV: the warning of a smoke run, and all notes.
std::vector<std::string> warnings(const Results& results);

/// All notes: pending, stale, truncated, length-limited and failed results, missing values, and
/// published numbers without a place in the tables.
std::vector<std::string> notes(const Results& results);

}  // namespace turnbench
