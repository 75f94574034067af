#pragma once

#include <string>

#include "reports/chart.h"
#include "reports/plot.h"
#include "reports/score_distribution.h"

namespace turnbench {

/// A dot chart as a figure of a page.  Its plot has the width of the page: the text keeps its size,
/// and on a narrow page the labels are above the dots.
std::string chart_html(const DotChart& chart);

/// A plot as a figure; its area is as wide as the page.
std::string plot_html(const Plot& plot);

/// A bar for each method, divided into the bins of its scores.
std::string distribution_html(const ScoreDistribution& distribution);

}  // namespace turnbench
