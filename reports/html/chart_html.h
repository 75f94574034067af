#pragma once

#include <string>

#include "reports/chart.h"

namespace turnbench {

/// A dot chart as a figure of a page.  Its plot has the width of the page: the text keeps its size,
/// and on a narrow page the labels are above the dots.
std::string chart_html(const DotChart& chart);

}  // namespace turnbench
