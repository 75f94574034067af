#include "reports/html/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/cost_plots.h"
#include "reports/html/chart_html.h"
#include "reports/html/heat_map.h"
#include "reports/html/text_html.h"
#include "reports/pivot.h"
#include "reports/position_chart.h"
#include "reports/table_plots.h"

namespace turnbench {
namespace {

bool has_dots(const DotChart& chart) {
  return std::any_of(chart.rows.begin(), chart.rows.end(), [](const DotChart::Row& row) {
    return std::any_of(row.dots.begin(), row.dots.end(),
                       [](const DotChart::Dot& dot) { return dot.present; });
  });
}

/// Some charts, and the others in a block that can be opened.
std::string folded_html(const std::vector<std::string>& charts, std::size_t shown,
                        const std::string& summary, ViewBudget& budget) {
  std::string out, folded;
  for (std::size_t i = 0; i < charts.size(); ++i) (i < shown ? out : folded) += charts[i];
  if (folded.empty()) return out;
  if (folded.size() > budget.folded_charts) {
    return out + note_html(fmt::format("{} more charts are left out, because the page would be too "
                                       "large.",
                                       charts.size() - shown));
  }
  budget.folded_charts -= folded.size();
  return out + "<details><summary>" + summary + "</summary>\n" + folded + "</details>\n";
}

/// Whether the dots of a table are readable, and not those of the chart by position, which has all
/// methods.
bool suits_dots(const Pivot& pivot, bool has_all_methods) {
  constexpr std::size_t kMostColumns = 6, kMostRows = 60;
  const bool is_by_position = pivot.column_dimensions == std::vector<std::string>{"position"} &&
                              pivot.row_dimensions == std::vector<std::string>{"method"};
  return pivot.columns.size() <= kMostColumns && pivot.rows.size() <= kMostRows &&
         pivot.rows.size() > 1 &&
         !(has_all_methods && is_by_position && pivot.values.front()->name == "score");
}

}  // namespace

std::string position_charts_html(const Results& results, ViewBudget& budget) {
  const std::vector<DotChart> charts = position_charts(results);
  if (std::none_of(charts.begin(), charts.end(), has_dots)) return "";
  std::vector<std::string> out;
  for (const DotChart& chart : charts) out.push_back(chart_html(chart));
  return folded_html(out, 1, fmt::format("Each of {} datasets", charts.size() - 1), budget);
}

std::string table_charts_html(const Results& results, std::size_t table, ViewBudget& budget) {
  TableSpec spec = results.tables()[table];
  spec.difference_to.clear();
  const Pivot pivot = make_pivot(results, spec);
  if (pivot.values.size() > 1) return "";  // they have no axis in common
  constexpr std::size_t kShown = 4;
  std::vector<std::string> plots = heat_maps_html(pivot);
  if (!plots.empty())
    return folded_html(plots, kShown, fmt::format("{} more", plots.size() - kShown), budget);
  for (const Plot& plot : table_plots(pivot)) plots.push_back(plot_html(plot));
  if (!plots.empty())
    return folded_html(plots, kShown, fmt::format("{} more", plots.size() - kShown), budget);
  const DotChart dots = dot_chart(pivot);
  return suits_dots(pivot, spec.methods.empty()) && has_dots(dots) ? chart_html(dots) : "";
}

std::string cost_charts_html(const Results& results, ViewBudget& budget) {
  std::vector<std::string> plots;
  for (const Plot& plot : cost_plots(results)) plots.push_back(plot_html(plot));
  return folded_html(plots, 1, "Other costs", budget);
}

std::string distribution_chart_html(const Results& results) {
  const ScoreDistribution distribution = score_distribution(results);
  return distribution.rows.empty() ? "" : distribution_html(distribution);
}

}  // namespace turnbench
