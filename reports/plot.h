#pragma once

#include <string>
#include <vector>

#include "harness/experiment/table_values.h"
#include "reports/axis.h"
#include "reports/estimate.h"

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

/// The mean and interval of an estimate; without an interval, its ends are the mean.
Plot::Point point_at(double x, const Estimate& estimate, const std::string& name,
                     const std::string& values);

/// The axis of the means of all points: of shares from 0 to 100, else around all intervals.
Axis mean_axis(const TableValue& unit, const std::vector<Plot::Series>& series);

/// Sorts the points of each series.
void sort_by_x(std::vector<Plot::Series>& series);

/// The values of all points, one line each.
std::string describe(const Plot& plot);

}  // namespace turnbench
