#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"

namespace turnbench {

struct RenderOptions {
  std::string format = "md";  ///< md, csv, tex, html or json: tables; svg: the figure
  bool long_csv = false;      ///< csv with one cell a line and all fields, instead of tables
};
/// The report of an experiment.
/// @throws Error (input) for an unknown format.
std::string render_report(const Results& results, const RenderOptions& options);

std::string render_markdown(const Results& results);
std::string render_csv(const Results& results);
std::string render_csv_long(const Results& results);
std::string render_json(const Results& results);
/// Tables for \input; they need no LaTeX packages.
std::string render_latex(const Results& results);
/// One self-contained page: tables, a dot chart by position, the protocol cards, what failed.
std::string render_html(const Results& results);

/// One cell of the experiment with its estimate: an element of json and a line of the long csv.
struct CellLine {
  Cell cell;
  Estimate estimate;
  std::size_t pending = 0;  ///< dialogues that have not run yet
  std::optional<Results::Published> published;
};
std::vector<CellLine> cell_lines(const Results& results);

}  // namespace turnbench
