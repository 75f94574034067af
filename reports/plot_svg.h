#pragma once

#include <string>

#include "reports/plot.h"

namespace turnbench {

constexpr double kPlotHeight = 280;  ///< of the area between the axes, in pixels

/// The content of an SVG element of any width and of height `kPlotHeight`: the grid, lines,
/// intervals and marks; the labels of ticks are outside, to the left and below.  Horizontal places
/// are in percent.  Colours come from the classes of `SeriesMark`.
std::string plot_area(const Plot& plot);

/// A plot as an image of its own, with title, legend and labels of the axes.
std::string render_svg(const Plot& plot);

}  // namespace turnbench
