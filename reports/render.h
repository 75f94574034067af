#pragma once

#include <string>
#include <vector>

#include "reports/entry_columns.h"
#include "reports/pivot.h"

namespace turnbench {

/// Formats of tables, and svg for the figure.
inline constexpr const char* kReportFormats[] = {"md", "csv", "tex", "html", "json", "svg"};

/// The chart that svg shows: mean scores by position of the question, that of the only table, or
/// mean scores over costs.
enum class ChartKind { kPositions, kTable, kCosts };

struct RenderOptions {
  std::string format = "md";   ///< one of kReportFormats
  bool long_csv = false;       ///< csv with one cell per line and all fields, instead of the table
  Comparison comparison = {};  ///< how differences are tested
  ChartKind chart = ChartKind::kPositions;
  /// Csv: prefix text that a spreadsheet would evaluate with an apostrophe.
  bool guard_formulas = true;
  EntryColumns columns = {};  ///< md and tex
};
/// The report of an experiment.
/// @throws Error (input) for an unknown format, and for a chart that the results do not have.
std::string render_report(const Results& results, const RenderOptions& options);

std::string render_markdown(const Results& results, const Comparison& comparison = {},
                            const EntryColumns& columns = {});
/// The only table of the results, as in RFC 4180 except that lines end with LF: a header, and lines
/// with the same number of fields.
/// @throws Error (input) if there are several tables; the message lists them.
std::string render_csv(const Results& results, const RenderOptions& options = {});
/// All cells, one per line; also as in RFC 4180.
std::string render_csv_long(const Results& results, const RenderOptions& options = {});
/// "schema" of the JSON, whose fields docs/reports.md lists.  It increases if a field changes its
/// meaning or is removed, not if one is added.
inline constexpr int kReportSchema = 1;
std::string render_json(const Results& results, const Comparison& comparison = {});
/// Tables for \input; they need the package booktabs.
std::string render_latex(const Results& results, const Comparison& comparison = {},
                         const EntryColumns& columns = {});
/// A chart as an image.
/// @throws Error (input) if the results do not have it.
std::string render_chart(const Results& results, ChartKind kind);
/// One self-contained page: tables, charts, the protocol cards, failures.
std::string render_html(const Results& results, const Comparison& comparison = {});

/// What a page of a store shows.
struct PageRequest {
  std::vector<std::string> experiments;
  ScoreChoice choice = {};  ///< which scores; by default, the page offers all that the store has
  std::string table = {};   ///< only this table, by number or title; empty: all
  /// The version of the store, for a page that asks its server for a newer one; empty for a file.
  std::string version = {};
};
/// One self-contained page, with an index of several experiments.
/// @throws Error (input) if an experiment has no such scores or no such table.
std::string render_html(const Store& store, const PageRequest& request,
                        const Comparison& comparison = {});

/// One cell of the experiment with its estimate: an element of json, or a line of the long csv.
struct CellLine {
  Cell cell;
  Estimate estimate;
  /// One for each of `baselines`; nullopt for the baseline itself, and if nothing can be compared.
  std::vector<std::optional<Difference>> differences;
  std::size_t pending = 0;  ///< dialogues that have not run yet
  std::optional<Results::Published> published;
};
std::vector<CellLine> cell_lines(const Results& results, const Comparison& comparison);

/// The distinct baselines of the experiment's tables.
std::vector<BaselineRule> baselines(const Results& results);

}  // namespace turnbench
