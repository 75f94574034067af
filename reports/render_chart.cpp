#include "common/error.h"
#include "reports/chart.h"
#include "reports/cost_plots.h"
#include "reports/notes.h"
#include "reports/plot_svg.h"
#include "reports/position_chart.h"
#include "reports/render.h"
#include "reports/table_plots.h"

namespace turnbench {
namespace {

/// What a reader of the image must know: smoke runs, and dialogues that have not run.
std::vector<std::string> notes_of(const Results& results) {
  std::vector<std::string> out;
  for (const std::string& note : {results.manifest().smoke, progress_note(results)}) {
    if (!note.empty()) out.push_back(note);
  }
  return out;
}

void add_notes(const Results& results, std::vector<Plot>& plots) {
  for (std::string& note : notes_of(results)) plots.back().notes.push_back(std::move(note));
}

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
    dots.notes = notes_of(results);
    return render_svg(dots);
  }
  for (Plot& plot : plots) {
    const bool both = !pivot.title.empty() && !plot.title.empty();
    plot.title = pivot.title + (both ? ": " : "") + plot.title;
  }
  add_notes(results, plots);
  return render_svg(plots);
}

}  // namespace

std::string render_chart(const Results& results, ChartKind kind) {
  switch (kind) {
    case ChartKind::kTable:
      return table_chart(results);
    case ChartKind::kCosts: {
      std::vector<Plot> plots = cost_plots(results);
      if (plots.empty()) {
        throw input_error(
            "{}: found no cost that differs between methods with scores, expected one",
            results.manifest().name);
      }
      add_notes(results, plots);
      return render_svg(plots);
    }
    default:
      return render_svg(position_charts(results).front());
  }
}

}  // namespace turnbench
