#include "reports/plot.h"

#include "common/text.h"
#include "reports/escape.h"

namespace turnbench {

std::string describe(const Plot& plot) {
  std::vector<std::string> lines;
  for (const Plot::Series& series : plot.series) {
    for (const Plot::Point& point : series.points) lines.push_back(one_line(point.text()));
  }
  return join(lines, "\n");
}

}  // namespace turnbench
