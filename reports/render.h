#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"

namespace turnbench {

/// Tables; svg is the figure.
inline constexpr const char* kReportFormats[] = {"md", "csv", "tex", "html", "json", "svg"};

struct RenderOptions {
  std::string format = "md";   ///< one of kReportFormats
  bool long_csv = false;       ///< csv with one cell a line and all fields, instead of the table
  Comparison comparison = {};  ///< how differences are tested
  bool guard_formulas = true;  ///< csv: an apostrophe in front of what a spreadsheet would compute
};
/// The report of an experiment.
/// @throws Error (input) for an unknown format.
std::string render_report(const Results& results, const RenderOptions& options);

std::string render_markdown(const Results& results, const Comparison& comparison = {});
/// The only table of the results, after RFC 4180 but for its line ends, which are LF: a header and
/// lines of as many fields.
/// @throws Error (input) if there are several tables; the message lists them.
std::string render_csv(const Results& results, const RenderOptions& options = {});
/// All cells, one a line; also after RFC 4180.
std::string render_csv_long(const Results& results, const RenderOptions& options = {});
std::string render_json(const Results& results, const Comparison& comparison = {});
/// Tables for \input; they need no LaTeX packages.
std::string render_latex(const Results& results, const Comparison& comparison = {});
/// One self-contained page: tables, a dot chart by position, the protocol cards, what failed.
std::string render_html(const Results& results, const Comparison& comparison = {});

/// One cell of the experiment with its estimate: an element of json and a line of the long csv.
struct CellLine {
  Cell cell;
  Estimate estimate;
  /// To each of `baselines`; nothing for itself, and where there is nothing to compare.
  std::vector<std::optional<Difference>> differences;
  std::size_t pending = 0;  ///< dialogues that have not run yet
  std::optional<Results::Published> published;
};
std::vector<CellLine> cell_lines(const Results& results, const Comparison& comparison);

/// The methods that the experiment's tables take differences to, each once.
std::vector<std::string> baselines(const Results& results);

}  // namespace turnbench
