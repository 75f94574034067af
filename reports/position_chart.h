#pragma once

#include <string>

#include "reports/chart.h"
#include "reports/pivot.h"

namespace turnbench {

/// Mean scores with methods as rows and the positions of the question as series; of one dataset, or
/// of all of them with the same weight (empty).
DotChart position_chart(const Results& results, const std::string& dataset);

}  // namespace turnbench
