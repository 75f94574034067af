#pragma once

#include <string>
#include <vector>

#include "reports/baseline_cells.h"
#include "reports/pivot.h"
#include "reports/table_layout.h"

namespace turnbench {

/// Why an entry, or a part of one, has no value.
constexpr const char *kNotRun = "not run", *kNoValue = "no value";

/// The table's title, with the meaning and the unit of its values.
std::string title_of(const TableLayout& layout);

/// Pivot::basis: "Dialogues: 24 of each of 4 datasets.  Means over position (begin, end)."; "" if
/// there are no numbers.
std::string basis_of(const TableLayout& layout, const Pivot& pivot);

/// Adds the notes on blank entries, on methods without a baseline, on missing parts of means and on
/// published numbers.  `baselines`: for each rule of the table.
void add_notes(const TableLayout& layout, const std::vector<BaselineCells>& baselines,
               Pivot& pivot);

}  // namespace turnbench
