#include "reports/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "reports/position_chart.h"

namespace turnbench {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  for (const std::string& f : fields) quoted.push_back(csv_field(f));
  return join(quoted, ",") + "\n";
}

/// A comment in front of the numbers of a smoke run.
std::string csv_warning(const Results& results) {
  const std::string& warning = results.manifest().smoke;
  return warning.empty() ? "" : "# " + printable(warning) + "\n";
}

std::string markdown_line(const std::vector<std::string>& fields) {
  std::string out = "|";
  for (std::string f : fields) {
    for (std::size_t i = 0; (i = f.find('|', i)) != std::string::npos; i += 2) f.insert(i, "\\");
    out += " " + f + " |";
  }
  return out + "\n";
}

/// "92.4 ±3.1", with the difference to the baseline and to the published number where there are
/// any.
std::string entry_text(const Pivot::Entry& e) {
  if (e.estimate.turns == 0) return fmt::format("failed ({})", e.estimate.failed);
  std::string out = fmt::format("{:.1f} ±{:.1f}", e.estimate.mean, e.estimate.half_width());
  if (e.difference)
    out += fmt::format(" ({:+.1f} ±{:.1f})", e.difference->mean, e.difference->half_width());
  if (e.published)
    out += fmt::format(" [paper {:.2f}, {:+.2f}]", *e.published, e.estimate.mean - *e.published);
  if (e.estimate.failed > 0) out += fmt::format(" {} failed", e.estimate.failed);
  return out;
}

/// Whether a table has columns of counters: its rows are methods, and not probes alone.
bool shows_counters(const Pivot& p) {
  return p.row_dimensions == std::vector<std::string>{"method"} && p.has_counters();
}

std::string markdown_table(const Pivot& p, const std::string& warning) {
  std::string out;
  if (!p.title.empty()) out += "**" + p.title + "**\n\n";
  if (!warning.empty()) out += "> **" + warning + "**\n\n";
  const bool counted = shows_counters(p);
  std::vector<std::string> header = p.row_dimensions;
  for (const auto& column : p.columns) header.push_back(join(column, " / "));
  if (counted) header.insert(header.end(), {"kept", "read", "pairs"});
  out += markdown_line(header) + "|";
  for (std::size_t i = 0; i < header.size(); ++i)
    out += i < p.row_dimensions.size() ? " --- |" : " ---: |";
  out += "\n";
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    std::vector<std::string> fields = p.rows[r];
    for (const auto& e : p.entries[r]) fields.push_back(e ? entry_text(*e) : "");
    if (counted) {
      for (const auto& [name, digits] :
           {std::pair("kv_tokens", 0), {"attended_tokens", 0}, {"prefill_pairs_share", 2}}) {
        const std::optional<double> mean = p.mean_counter(r, name);
        fields.push_back(mean ? fmt::format("{:.{}f}", *mean, digits) : "");
      }
    }
    out += markdown_line(fields);
  }
  return out;
}

OrderedJson to_json(const Truncation& t) {
  return {{"prompts", t.prompts}, {"cut", t.cut}, {"longest", t.longest}, {"cut_to", t.cut_to}};
}

}  // namespace

std::vector<CellLine> cell_lines(const Results& results) {
  std::vector<CellLine> out;
  for (const Cell& cell : results.cells()) {
    const Stratum& s = results.stratum(cell.key, -1);
    CellLine line{cell, estimate({&s}), results.published(cell)};
    line.estimate.failed = s.failed;
    out.push_back(std::move(line));
  }
  return out;
}

std::string render_markdown(const Results& results) {
  const Manifest& m = results.manifest();
  std::string out = "# " + m.title + "\n\n";
  if (!m.description.empty()) out += m.description + "\n\n";
  std::set<std::string> baselines;
  bool counters = false;
  for (const TableSpec& spec : m.tables) {
    const Pivot p = make_pivot(results, spec);
    out += markdown_table(p, m.smoke) + "\n";
    if (!spec.difference_to.empty()) baselines.insert(spec.difference_to);
    counters |= shows_counters(p);
  }
  const bool measured = std::any_of(m.tables.begin(), m.tables.end(),
                                    [](const TableSpec& t) { return t.value != "score"; });
  out += measured ? "Means with 95% intervals (bootstrap over dialogues), scores x100"
                  : "Means x100 with 95% intervals (bootstrap over dialogues)";
  if (!baselines.empty()) {
    out += "; in parentheses the paired difference to " + join(baselines, " or ");
  }
  out += ".";
  if (counters) {
    out +=
        " kept: tokens cached per KV head when the answer begins; read: tokens that a decode step "
        "attends to; "
        "pairs: share of the causal pairs that prefill attention computes.";
  }
  out += "\n";
  if (results.truncation().cut > 0) out += "\n" + text_of(results.truncation()) + ".\n";
  if (results.pending() > 0)
    out += fmt::format("\n{} dialogues have not run yet; `run` goes on with them.\n",
                       results.pending());
  if (!results.failures().empty())
    out += fmt::format("\n{} records failed; `status` lists them.\n", results.failures().size());
  int without_value = 0;
  std::set<std::string> seen;  // a cell may have several labels
  for (const Cell& cell : results.cells()) {
    if (seen.insert(cell.key).second) without_value += results.stratum(cell.key, -1).without_value;
  }
  if (without_value > 0) {
    const std::string chosen = name_of(results.choice());
    out += chosen.empty()
               ? fmt::format("\n{} turns have no value: a probe had nothing to measure on them.\n",
                             without_value)
               : fmt::format("\n{} turns have no value of {}.\n", without_value, chosen);
  }
  return out;
}

std::string render_csv(const Results& results) {
  std::string out;
  for (const TableSpec& spec : results.manifest().tables) {
    const Pivot p = make_pivot(results, spec);
    const bool published = p.has_published();
    std::vector<std::string> header = p.row_dimensions;
    for (const auto& column : p.columns) {
      for (const char* suffix : {"", " low", " high", " n", " failed"})
        header.push_back(join(column, " / ") + suffix);
      if (!published) continue;
      for (const char* suffix : {" published", " difference"})
        header.push_back(join(column, " / ") + suffix);
    }
    if (!out.empty()) out += "\n";
    out += csv_warning(results) + csv_line(header);
    for (std::size_t r = 0; r < p.rows.size(); ++r) {
      std::vector<std::string> fields = p.rows[r];
      for (const auto& e : p.entries[r]) {
        for (int part = 0; part < 3; ++part) {
          const bool any = e && e->estimate.turns > 0;
          const double x = !any        ? 0
                           : part == 0 ? e->estimate.mean
                           : part == 1 ? e->estimate.low
                                       : e->estimate.high;
          fields.push_back(any ? fmt::format("{:.2f}", x) : "");
        }
        fields.push_back(std::to_string(e ? e->estimate.turns : 0));
        fields.push_back(std::to_string(e ? e->estimate.failed : 0));
        if (!published) continue;
        const bool known = e && e->published, both = known && e->estimate.turns > 0;
        fields.push_back(known ? fmt::format("{:.2f}", *e->published) : "");
        fields.push_back(both ? fmt::format("{:.2f}", e->estimate.mean - *e->published) : "");
      }
      out += csv_line(fields);
    }
  }
  return out;
}

std::string render_csv_long(const Results& results) {
  std::string out = csv_warning(results);
  out += csv_line({"model", "dataset", "position", "method", "history", "answers", "metric", "mean",
                   "low", "high", "n", "failed", "published"});
  for (const CellLine& line : cell_lines(results)) {
    const Estimate& e = line.estimate;
    const auto number = [&](double x) {
      return e.turns == 0 ? std::string() : fmt::format("{}", x);
    };
    out +=
        csv_line({line.cell.model, line.cell.dataset, line.cell.position, line.cell.method,
                  line.cell.history, line.cell.answers, line.cell.metric, number(e.mean),
                  number(e.low), number(e.high), std::to_string(e.turns), std::to_string(e.failed),
                  line.published ? fmt::format("{}", *line.published) : ""});
  }
  return out;
}

std::string render_json(const Results& results) {
  OrderedJson out;
  out["experiment"] = results.manifest().name;
  if (!results.manifest().smoke.empty()) out["smoke"] = results.manifest().smoke;
  out["cells"] = OrderedJson::array();
  for (const CellLine& line : cell_lines(results)) {
    const Estimate& e = line.estimate;
    OrderedJson cell;
    cell["model"] = line.cell.model;
    cell["dataset"] = line.cell.dataset;
    cell["position"] = line.cell.position;
    cell["method"] = line.cell.method;
    cell["settings"] = {{"history", line.cell.history},
                        {"answers", line.cell.answers},
                        {"method", line.cell.method_canonical},
                        {"postprocess", line.cell.postprocess}};
    cell["metric"] = line.cell.metric;
    const auto number = [&](double x) {
      return e.turns == 0 ? OrderedJson(nullptr) : OrderedJson(x);
    };
    cell["mean"] = number(e.mean);
    cell["low"] = number(e.low);
    cell["high"] = number(e.high);
    cell["n"] = e.turns;
    cell["failed"] = e.failed;
    const int without_value = results.stratum(line.cell.key, -1).without_value;
    if (without_value > 0) cell["without_value"] = without_value;
    if (const Truncation t = results.truncation(line.cell.key); t.cut > 0)
      cell["truncation"] = to_json(t);
    cell["published"] = line.published ? OrderedJson(*line.published) : OrderedJson(nullptr);
    out["cells"].push_back(std::move(cell));
  }
  return out.dump(1) + "\n";
}

std::string render_report(const Results& results, const RenderOptions& options) {
  if (options.format == "md") return render_markdown(results);
  if (options.format == "csv")
    return options.long_csv ? render_csv_long(results) : render_csv(results);
  if (options.format == "json") return render_json(results);
  if (options.format == "html") return render_html(results);
  if (options.format == "tex") return render_latex(results);
  if (options.format == "svg") return render_svg(position_chart(results, ""));
  throw input_error("--format: found \"{}\", expected md, csv, tex, html, json or svg",
                    printable(options.format));
}

}  // namespace turnbench
