#pragma once

#include <vector>

#include "reports/chart.h"
#include "reports/pivot.h"

namespace turnbench {

/// Mean scores with methods as rows and the positions of the question as series: of all datasets
/// with the same weight, then of each, if there are several.  Models, histories and sources of the
/// earlier answers have rows of their own: nothing but datasets is averaged.
std::vector<DotChart> position_charts(const Results& results);

}  // namespace turnbench
