#include "reports/position_chart.h"

#include <fmt/format.h>

#include "common/text.h"
#include "reports/headings.h"
#include "reports/notes.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

std::string title_of(const Results& results, const std::string& what) {
  const std::string& warning = results.manifest().smoke;
  return warning.empty() ? what : warning + " - " + what;
}

/// The rows of a table, and those of its columns for which `shown` is true, with the name of each.
template <typename Shown, typename Name>
DotChart chart_of(const Pivot& pivot, const Shown& shown, const Name& name) {
  DotChart out;
  out.axis.label = mean_heading(*pivot.values.front());
  for (const std::vector<std::string>& row : pivot.rows) out.rows.push_back({join(row, ", "), {}});
  for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
    const std::vector<std::string>& column = pivot.columns[c];
    if (!shown(column)) continue;
    out.series.push_back(name(column));
    for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
      const auto& e = pivot.entries[r][c];
      DotChart::Dot& dot = out.rows[r].dots.emplace_back();
      if (!e || !e->estimate.known) continue;
      const double mean = e->estimate.mean;
      const Interval interval = e->estimate.interval.value_or(Interval{mean, mean});
      dot = {mean, interval.low, interval.high, true, estimate_text(e->estimate, e->unit->digits)};
    }
  }
  if (!pivot.shows_shares()) fit_axis(out);
  return out;
}

/// A table whose last column dimension is the position; of the datasets in its columns, if it has
/// any, one is drawn.
DotChart chart_of(const Pivot& pivot, const std::string& dataset) {
  using Values = std::vector<std::string>;
  return chart_of(
      pivot, [&](const Values& column) { return dataset.empty() || column.front() == dataset; },
      [](const Values& column) { return column.back(); });
}

}  // namespace

DotChart dot_chart(const Pivot& pivot) {
  using Values = std::vector<std::string>;
  return chart_of(
      pivot, [](const Values&) { return true; },
      [&](const Values& column) { return value_heading(pivot.column_dimensions, column); });
}

std::vector<DotChart> position_charts(const Results& results) {
  TableSpec spec;
  spec.rows = results.method_dimensions();
  spec.columns = {"position"};
  const Pivot all = make_pivot(results, spec);
  std::vector<DotChart> out = {chart_of(all, "")};
  out.back().title = title_of(results, "all datasets");
  out.back().notes = all.notes;
  spec.columns.insert(spec.columns.begin(), "dataset");
  const Pivot each = make_pivot(results, spec);
  std::vector<std::string> datasets;
  for (const auto& column : each.columns) {
    if (datasets.empty() || datasets.back() != column.front()) datasets.push_back(column.front());
  }
  for (const std::string& dataset : datasets) {
    if (datasets.size() < 2) break;
    out.push_back(chart_of(each, dataset));
    out.back().title = title_of(results, dataset);
  }
  const std::string partial = progress_note(results);
  for (DotChart& chart : out) {
    if (!partial.empty()) chart.notes.push_back(partial);
  }
  return out;
}

}  // namespace turnbench
