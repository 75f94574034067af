#pragma once

#include <string>
#include <vector>

#include "reports/plot.h"

namespace turnbench {

constexpr double kPlotHeight = 280;  ///< of the area between the axes, in pixels

/// The content of an SVG element of any width and of height `kPlotHeight`: the grid, lines,
/// intervals and marks; the labels of ticks are outside, to the left and below.  Horizontal places
/// are in percent.  Colours come from the classes of `SeriesMark`.
std::string plot_area(const Plot& plot);

/// Plots as an image of their own, one below the other, each with its title, legend and labels of
/// the axes.  There is at least one.
std::string render_svg(const std::vector<Plot>& plots);

}  // namespace turnbench
