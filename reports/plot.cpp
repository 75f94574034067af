#include "reports/plot.h"

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/headings.h"

namespace turnbench {

Plot::Point point_at(double x, const Estimate& estimate, const std::string& name,
                     const std::string& values) {
  const Interval interval = estimate.interval.value_or(Interval{estimate.mean, estimate.mean});
  return {x, estimate.mean, interval.low, interval.high, name, values};
}

Axis mean_axis(const TableValue& unit, const std::vector<Plot::Series>& series) {
  const std::string label = mean_heading(unit);
  if (unit.is_share() && !unit.is_signed) return share_axis(label);
  std::vector<double> ends;
  for (const Plot::Series& line : series) {
    for (const Plot::Point& point : line.points) ends.insert(ends.end(), {point.low, point.high});
  }
  return linear_axis(label, ends);
}

void sort_by_x(std::vector<Plot::Series>& series) {
  for (Plot::Series& line : series) {
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const Plot::Point& a, const Plot::Point& b) { return a.x < b.x; });
  }
}

std::string describe(const Plot& plot) {
  std::vector<std::string> lines;
  for (const Plot::Series& series : plot.series) {
    for (const Plot::Point& point : series.points) lines.push_back(one_line(point.text()));
  }
  return join(lines, "\n");
}

}  // namespace turnbench
