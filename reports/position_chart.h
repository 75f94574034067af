#pragma once

#include <vector>

#include "reports/chart.h"
#include "reports/pivot.h"

namespace turnbench {

/// The entries of a table as dots: its columns are the series.
DotChart dot_chart(const Pivot& pivot);

/// Charts of mean scores: methods are rows, positions of the question are series.  The first chart
/// is the mean over all datasets with equal weight; if there are several datasets, one chart for
/// each follows.  Only datasets are averaged: each model, history and source of earlier answers has
/// its own row.
std::vector<DotChart> position_charts(const Results& results);

}  // namespace turnbench
