#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text.h"
#include "reports/chart.h"
#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/notes.h"
#include "reports/number_text.h"
#include "reports/position_chart.h"
#include "reports/render.h"
#include "reports/report_file.h"

namespace turnbench {
namespace {

constexpr double kDoubt = .05;

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1b1b1b; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #e3e3e3; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #999; font-weight: 600; } th.label, td.label { text-align: left; }
td .interval { color: #666; font-size: .85em; } td .difference { display: block; color: #666; font-size: .82em; }
td.worse { background: #fdeee6; } .failed { color: #b00; }
figure { margin: 1rem 0; overflow-x: auto; } h1, h2, .note, li, summary { overflow-wrap: anywhere; }
.note { color: #555; max-width: 60rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
.warning { background: #b00; color: #fff; font-weight: 600; padding: .4rem .7rem; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: 13px; }
)";

/// Whether an entry is significantly worse than the baseline.
bool is_worse(const Pivot::Entry& e, const TableValue& unit) {
  if (!e.difference || e.difference->against_zero.adjusted > kDoubt) return false;
  const double mean = e.difference->estimate.mean;
  return unit.lower_is_better ? mean > 0 : mean < 0;
}

/// A line below the mean of an entry.
std::string second_line(const std::string& text) {
  return "<span class=\"difference\">" + text + "</span>";
}

std::string entry_cell(const std::optional<Pivot::Entry>& e, const TableValue& unit) {
  if (!e) return "<td></td>";
  const Estimate& x = e->estimate;
  const int digits = unit.digits;
  if (!x.known) {
    const std::string paper =
        e->published ? second_line("paper " + published_text(*e->published, digits)) : "";
    return e->missing.empty()
               ? fmt::format("<td class=\"failed\">{} failed{}</td>", x.failed, paper)
               : fmt::format("<td title=\"missing: {}\">–{}</td>",
                             escape_markup(join(e->missing, ", ")), paper);
  }
  std::string out = fmt::format("<td{}>{}", is_worse(*e, unit) ? " class=\"worse\"" : "",
                                number_text(x.mean, digits));
  if (x.interval)
    out += " <span class=\"interval\">" + interval_text(*x.interval, digits) + "</span>";
  if (const auto& d = e->difference) {
    out += second_line(estimate_text(d->estimate, digits, /*sign=*/true) + ", " +
                       escape_markup(tests_text(*d)));
  }
  if (e->published) {
    out += second_line(fmt::format("paper {} ({})", published_text(*e->published, digits),
                                   published_text(x.mean - *e->published, digits, /*sign=*/true)));
  }
  if (x.failed > 0) out += second_line(fmt::format("{} failed", x.failed));
  return out + "</td>";
}

std::string table(const Pivot& p) {
  std::string out = "<div class=\"table\"><table><thead><tr>";
  for (const std::string& d : p.row_dimensions)
    out += "<th class=\"label\">" + escape_markup(dimension_heading(d)) + "</th>";
  for (const auto& c : p.columns)
    out += "<th>" + escape_markup(value_heading(p.column_dimensions, c)) + "</th>";
  const std::vector<ReportedCounter> counters = p.shown_counters();
  for (const ReportedCounter& c : counters)
    out += fmt::format("<th title=\"{}\">{}</th>", c.meaning, c.heading);
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    out += "<tr>";
    for (const std::string& value : p.rows[r])
      out += "<td class=\"label\">" + escape_markup(value) + "</td>";
    for (const auto& e : p.entries[r]) out += entry_cell(e, *p.value);
    for (const ReportedCounter& c : counters) out += "<td>" + p.counter_text(r, c.name) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string paragraph(const std::string& text) {
  return "<p class=\"note\">" + escape_markup(text) + "</p>\n";
}

std::string comparability_list(const Pivot& p) {
  if (p.comparability.empty()) return "";
  std::string out = paragraph(kNotAlike) + "<ul class=\"note\">\n";
  for (const ComparabilityRemark& remark : p.comparability)
    out += "<li>" + escape_markup(describe(remark)) + "</li>\n";
  return out + "</ul>\n";
}

std::string details(const std::string& summary, const std::string& text) {
  return "<details><summary>" + escape_markup(summary) + "</summary><pre>" +
         escape_markup_block(text) + "</pre></details>\n";
}

/// The origin of the numbers: protocol cards, the manifest, machines.
std::string protocol(const Results& results) {
  std::string out = "<h2>Protocol</h2>\n";
  std::map<std::string, std::vector<Cell>> cells;  // cells by card
  for (const Cell& c : results.cells()) cells[c.protocol].push_back(c);
  std::set<std::string> cards;
  for (const Cell& c : results.cells()) {
    if (!cards.insert(c.protocol).second) continue;
    out += details(c.model + ", " + c.dataset, c.protocol_text);
    if (const std::string cut = describe(results.truncation(cells[c.protocol])); !cut.empty())
      out += paragraph(cut + ".");
    const std::string limited = describe_limited(cells[c.protocol], results.usages());
    if (!limited.empty()) out += paragraph(limited + ".");
  }
  out += details("manifest", results.manifest().text);
  for (const std::string& e : results.environments()) out += details("environment", e);
  return out;
}

}  // namespace

std::string render_html(const Results& results, const Comparison& comparison) {
  const Manifest& m = results.manifest();
  std::string out = "<!doctype html>\n" + std::string(kMarkupMark);
  out +=
      "<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
      escape_markup(m.title) + "</title><style>" + kStyle + "</style></head><body>\n";
  out += "<h1>" + escape_markup(m.title) + "</h1>\n" + paragraph(m.description);
  const std::string warning =
      m.smoke.empty() ? "" : "<p class=\"warning\">" + escape_markup(m.smoke) + "</p>\n";
  std::vector<Pivot> pivots;
  for (const TableSpec& spec : results.tables()) {
    const Pivot& p = pivots.emplace_back(make_pivot(results, spec, comparison));
    out += "<h2>" + escape_markup(p.title.empty() ? "Results" : p.title) + "</h2>\n" + warning +
           table(p);
    if (!p.baseline.empty()) {
      out += paragraph(fmt::format("Shaded: {} than {}, p at most {}.",
                                   p.value->lower_is_better ? "more" : "less", p.baseline, kDoubt));
    }
    if (!p.basis.empty()) out += paragraph(p.basis);
    for (const std::string& note : p.notes) out += paragraph(note);
    out += comparability_list(p);
  }
  const bool counters =
      std::any_of(pivots.begin(), pivots.end(), [](const Pivot& p) { return p.has_counters(); });
  out += paragraph(caption(pivots, "on the second line", counters) + " Datasets weigh the same.");
  for (const std::string& note : notes(results)) out += paragraph(note);
  out += "<h2>By position of the question</h2>\n";
  for (const DotChart& chart : position_charts(results))
    out += "<figure>" + render_svg(chart) + "</figure>\n";
  out += protocol(results);
  if (!results.failures().empty()) {
    out += fmt::format("<h2>Failed records ({})</h2>\n<ul>", results.failures().size());
    for (const Store::Failure& f : results.failures()) {
      out += "<li>" +
             escape_markup(fmt::format("{}, turn {}: {}", f.dialogue, f.turn + 1, f.error)) +
             "</li>";
    }
    out += "</ul>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace turnbench
