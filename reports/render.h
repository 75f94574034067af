#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"

namespace turnbench {

/// The experiment's tables in one of the formats that `report` knows: md, csv, tex, html, json; or
/// its figure, svg.
/// `long_csv` prints one cell a line with all fields instead of the pivot.
struct RenderOptions {
  std::string format = "md";
  bool long_csv = false;
};
std::string render_report(const Results& results, const RenderOptions& options);

std::string render_markdown(const Results& results);
std::string render_csv(const Results& results);
std::string render_csv_long(const Results& results);
std::string render_json(const Results& results);
/// Tables for \input; they need no packages.
std::string render_latex(const Results& results);
/// One self-contained page: tables, a dot chart by position, the protocol cards, what failed.
std::string render_html(const Results& results);

/// One cell of the experiment with its estimate, as json and the long csv list them.
struct CellLine {
  Cell cell;
  Estimate estimate;
  std::size_t pending = 0;  ///< dialogues that have not run yet
  std::optional<Results::Published> published;
};
std::vector<CellLine> cell_lines(const Results& results);

}  // namespace turnbench
