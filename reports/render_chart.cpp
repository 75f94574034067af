#include "common/error.h"
#include "reports/chart.h"
#include "reports/cost_plots.h"
#include "reports/plot_svg.h"
#include "reports/position_chart.h"
#include "reports/render.h"
#include "reports/table_plots.h"

namespace turnbench {
namespace {

std::string table_chart(const Results& results) {
  TableSpec spec = results.tables().front();
  spec.difference_to.clear();
  const Pivot pivot = make_pivot(results, spec);
  if (pivot.values.size() > 1) {
    throw input_error("--table: found a table of {} quantities, expected one to draw a chart",
                      pivot.values.size());
  }
  std::vector<Plot> plots = table_plots(pivot);
  if (plots.empty()) {
    DotChart dots = dot_chart(pivot);
    dots.title = pivot.title;
    return render_svg(dots);
  }
  for (Plot& plot : plots) plot.title = pivot.title + (plot.title.empty() ? "" : ": " + plot.title);
  return render_svg(plots);
}

}  // namespace

std::string render_chart(const Results& results, ChartKind kind) {
  switch (kind) {
    case ChartKind::kTable:
      return table_chart(results);
    case ChartKind::kCosts: {
      const std::vector<Plot> plots = cost_plots(results);
      if (plots.empty()) {
        throw input_error(
            "{}: found no cost that differs between methods with scores, expected one",
            results.manifest().name);
      }
      return render_svg(plots);
    }
    default:
      return render_svg(position_charts(results).front());
  }
}

}  // namespace turnbench
