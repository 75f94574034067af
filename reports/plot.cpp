#include "reports/plot.h"

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"

namespace turnbench {

std::vector<Plot::Point> pareto_front(std::vector<Plot::Point> points, bool lower_is_better) {
  const double sign = lower_is_better ? -1 : 1;
  std::stable_sort(points.begin(), points.end(), [&](const Plot::Point& a, const Plot::Point& b) {
    return a.x != b.x ? a.x < b.x : sign * a.mean > sign * b.mean;
  });
  std::vector<Plot::Point> out;
  for (Plot::Point& point : points) {
    const bool is_equal = !out.empty() && out.back().x == point.x && out.back().mean == point.mean;
    if (out.empty() || is_equal || sign * point.mean > sign * out.back().mean)
      out.push_back(std::move(point));
  }
  return out;
}

std::string describe(const Plot& plot) {
  std::vector<std::string> lines;
  for (const Plot::Series& series : plot.series) {
    for (const Plot::Point& point : series.points) lines.push_back(one_line(point.text()));
  }
  return join(lines, "\n");
}

}  // namespace turnbench
