#pragma once

#include <cstddef>
#include <string>

#include "reports/html/views.h"
#include "reports/results.h"

namespace turnbench {

// The charts of an experiment as HTML; empty if there is nothing to draw.  Those in blocks that can
// be opened reduce the budget; what exceeds it is left out, which a note states.

/// Mean scores by position: over all datasets, and of each dataset in a block that can be opened.
std::string position_charts_html(const Results& results, ViewBudget& budget);

/// The charts that suit a table, by its index: a heat map or lines if its settings are numbers,
/// else dots if it has few columns.  Nothing for tables that equal the chart by position.
std::string table_charts_html(const Results& results, std::size_t table, ViewBudget& budget);

/// Mean scores over the costs of methods.
std::string cost_charts_html(const Results& results, ViewBudget& budget);

/// How the scores of single turns are distributed.
std::string distribution_chart_html(const Results& results);

}  // namespace turnbench
