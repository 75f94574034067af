#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "cli/cli.h"
#include "cli/report_output.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/entry_columns.h"
#include "reports/escape.h"
#include "reports/notes.h"
#include "reports/render.h"
#include "reports/tables.h"

namespace turnbench {

namespace {

struct ReportOptions {
  std::string db, output, table, chart = "positions", adjust = "maxt";
  std::vector<std::string> experiments;
  ScoreChoice choice;
  RenderOptions render;
  std::optional<double> margin;  ///< points
  bool force = false, no_formula_guard = false, compact = false;
  std::optional<std::string> columns;
};

/// The tests of differences.
Comparison comparison_of(const ReportOptions& o) {
  if (o.adjust != "maxt" && o.adjust != "holm")
    throw input_error("--adjust: found \"{}\", expected maxt or holm", printable(o.adjust));
  return {o.adjust == "holm" ? Adjustment::kHolm : Adjustment::kMaxT, o.margin.value_or(0)};
}

void check_output(const ReportOptions& o) {
  std::error_code ignored;
  if (!o.output.empty() && std::filesystem::equivalent(o.output, o.db, ignored))
    throw input_error("--output: found the store {}, expected another file", printable(o.output));
}

void check_table(const ReportOptions& o) {
  if (o.table.empty()) return;
  if (o.render.long_csv) throw input_error("--table: found --long too, expected only one of them");
}

/// The chart of svg: with --table, that of the table.
ChartKind chart_of(const ReportOptions& o, bool is_asked) {
  if (is_asked && o.render.format != "svg") {
    throw input_error("--chart: found the format {}, expected --format svg",
                      printable(o.render.format));
  }
  if (is_asked && !o.table.empty())
    throw input_error("--chart: found --table too, expected only one of them");
  if (o.chart != "positions" && o.chart != "costs")
    throw input_error("--chart: found \"{}\", expected positions or costs", printable(o.chart));
  return !o.table.empty()     ? ChartKind::kTable
         : o.chart == "costs" ? ChartKind::kCosts
                              : ChartKind::kPositions;
}

/// Prints to stderr, because a CSV has no place for warnings.
void print_warnings(const Results& results) {
  for (const std::string& line : warnings(results))
    fmt::print(stderr, "{}: {}\n", results.manifest().name, one_line(line));
}

/// The experiments to report.  By default, a page shows all of them; other formats, single tables
/// and chosen metrics are of one experiment, the latest.
std::vector<std::string> chosen_experiments(const ReportOptions& o, const Store& store) {
  const std::vector<std::string> all = store.experiments();
  if (all.empty()) throw input_error("{}: found no experiment, expected at least one", o.db);
  const bool is_page = o.render.format == "html";
  const bool of_one = !o.table.empty() || !o.choice.metric.empty();
  if (o.experiments.empty()) return is_page && !of_one ? all : std::vector<std::string>{all.back()};
  for (std::size_t i = 1; i < o.experiments.size(); ++i) {
    const auto end = o.experiments.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(o.experiments.begin(), end, *end) != end)
      throw input_error("--experiment: found \"{}\" twice, expected it once", printable(*end));
  }
  if (o.experiments.size() > 1 && (!is_page || of_one)) {
    throw input_error("--experiment: found {} experiments with {}, expected one",
                      o.experiments.size(),
                      !is_page           ? "the format " + printable(o.render.format)
                      : !o.table.empty() ? "--table"
                                         : "--metric");
  }
  return o.experiments;
}

std::string report_text(const ReportOptions& o, bool quiet) {
  const Store store = Store::open(o.db);
  const std::vector<std::string> experiments = chosen_experiments(o, store);
  if (o.render.format == "html")
    return render_html(store, {experiments, o.choice, o.table}, o.render.comparison);
  Results results(store, experiments.front(), o.choice);
  if (!o.table.empty()) results.keep_table(find_table(results.tables(), o.table));
  if (o.render.format == "csv" && !quiet) print_warnings(results);
  return render_report(results, o.render);
}

/// What entries show.
EntryColumns columns_of(const ReportOptions& o) {
  const char* option = o.compact ? "--compact" : "--columns";
  const bool given = o.compact || o.columns.has_value();
  if (given && o.render.format != "md" && o.render.format != "tex") {
    throw input_error("{}: found the format {}, expected md or tex: the others show all columns",
                      option, printable(o.render.format));
  }
  if (o.compact && o.columns)
    throw input_error("--compact: found --columns too, expected only one of them");
  if (o.compact) return {true, false, false, false};
  return o.columns ? parse_entry_columns(*o.columns) : EntryColumns();
}

void report(ReportOptions& o, bool quiet) {
  if (o.render.long_csv && o.render.format != "csv") {
    throw input_error("--long: found the format {}, expected --format csv",
                      printable(o.render.format));
  }
  check_table(o);
  o.render.columns = columns_of(o);
  o.render.comparison = comparison_of(o);
  check_score_choice(o.choice);
  print_or_write(report_text(o, quiet), o.output, o.force);
}

}  // namespace

void add_report_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand(
      "report", "Print the tables of an experiment, or a page of all, from the store only");
  command->footer(
      "Examples:\n  turnbench report results.db --format html -o results.html\n"
      "  turnbench report results.db --table 2 -o results.csv\n"
      "  turnbench report results.db --table 2 -o results.svg\n"
      "  turnbench report results.db --metric judge:round-attention\n"
      "  turnbench report results.db --table 1 --compact -o table.tex    # for a paper\n"
      "  turnbench report results.db --margin 2    # which methods are as good as the baseline?");
  command->add_option("db", o->db, "store")->required();
  command
      ->add_option("--experiment", o->experiments,
                   "experiment; default: the latest. html: all; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--metric", o->choice.metric,
                      "scores of another metric, stored by `score` or `judge`");
  command->add_option("--postprocess", o->choice.postprocess,
                      "with --metric: post-processing or judge of the scores");
  const CLI::Option* format = command->add_option(
      "--format", o->render.format,
      "md, csv, tex, html, json; svg: a chart; default: by the extension of -o, or md. csv is one "
      "table as in RFC 4180, with LF; its notes go to stderr");
  command
      ->add_option("--table", o->table,
                   "only this table, by its number from 1 or its title; csv is always one table; "
                   "svg: its chart")
      ->check(not_empty());
  const CLI::Option* chart = command->add_option(
      "--chart", o->chart,
      "svg: positions (mean by position of the question, the default), or costs (mean over tokens "
      "read, bytes and times, with the Pareto front)");
  command->add_option("--columns", o->columns,
                      "md and tex: what entries show, some of " + join(entry_column_names(), ",") +
                          "; default: all");
  command->add_flag("--compact", o->compact, "md and tex: only means, with their marks");
  command->add_flag("--long", o->render.long_csv, "csv of all cells, one per line");
  command->add_flag("--no-formula-guard", o->no_formula_guard,
                    "csv: write names unchanged; otherwise those that a spreadsheet would "
                    "evaluate, such as -2+3, get an apostrophe in front");
  command->add_option(
      "--adjust", o->adjust,
      "adjustment of p for the other differences of the table: maxt (step-down), holm");
  command
      ->add_option("--margin", o->margin,
                   "points within which methods are equivalent: adds the p of two one-sided tests "
                   "to every difference of scores, and to published numbers")
      ->check(score_points());
  command->add_option("-o,--output", o->output,
                      "file; default: stdout. Replaces only files that report wrote: html, tex and "
                      "svg are recognised by their first lines, md by the caption under its "
                      "tables, csv by its columns, json by its keys");
  command->add_flag("--force", o->force, "with -o: replace any file");
  command->callback([o, format, chart, &common] {
    check_output(*o);
    o->render.format = chosen_format(common, *format, o->render.format, o->output, kReportFormats);
    if (o->no_formula_guard && o->render.format != "csv") {
      throw input_error("--no-formula-guard: found the format {}, expected --format csv",
                        printable(o->render.format));
    }
    o->render.guard_formulas = !o->no_formula_guard;
    o->render.chart = chart_of(*o, chart->count() > 0);
    report(*o, common.quiet);
  });
}

}  // namespace turnbench
