#pragma once

#include <string>
#include <vector>

#include "reports/axis.h"

namespace turnbench {

/// Means with 95% intervals over a quantity.
struct Plot {
  struct Point {
    double x = 0, mean = 0, low = 0, high = 0;
    std::string name = {};    ///< "snapkv:budget=256"
    std::string values = {};  ///< "33.6 [26.7, 41.3]"
    std::string text() const { return name + ": " + values; }
  };
  /// A line; with `is_level`, one value for all x: a dashed line over the whole width.
  struct Series {
    std::string name;
    std::vector<Point> points = {};  ///< in ascending order of x
    bool is_level = false;
  };
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Point> front = {};        ///< the Pareto front, in ascending order of x
  std::vector<std::string> notes = {};  ///< below the plot
};

/// The values of all points, one line each.
std::string describe(const Plot& plot);

}  // namespace turnbench
