#pragma once

#include <string>
#include <vector>

#include "reports/axis.h"

namespace turnbench {

/// A dot chart as SVG: one row per label, one dot with its 95% interval per series.
struct DotChart {
  struct Dot {
    double mean = 0, low = 0, high = 0;
    bool present = false;
    std::string text = {};  ///< "70.6 [66.1, 75.1]", as tables print it
  };
  struct Row {
    std::string label;
    std::vector<Dot> dots;  ///< one per series
  };
  std::string title;
  Axis axis = share_axis("");
  std::vector<std::string> series;
  std::vector<Row> rows;
  std::vector<std::string> notes;  ///< under the axis
};

/// Sets the ends of the axis to round numbers around 0 and all intervals.
void fit_axis(DotChart& chart);

/// The values of a row, one line for each series: "begin: 70.6 [66.1, 75.1]".
std::string describe_row(const DotChart& chart, const DotChart::Row& row);

/// The width follows from the labels; titles and notes are wrapped.
std::string render_svg(const DotChart& chart);

}  // namespace turnbench
