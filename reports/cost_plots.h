#pragma once

#include <string>
#include <vector>

#include "reports/plot.h"
#include "reports/results.h"

namespace turnbench {

/// Counters and times that the plots of quality and cost read; the latter only of isolated
/// experiments.
const std::vector<std::string>& cost_counters();
const std::vector<std::string>& isolated_costs();

/// Mean quality over a cost, with the Pareto front: one plot for each cost that differs between the
/// methods, and for each model.  Quality is the mean over all datasets, positions and turns; a
/// method without a complete mean is left out.  The budgets of a method are
/// connected.
std::vector<Plot> cost_plots(const Results& results);

}  // namespace turnbench
