#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text.h"
#include "reports/chart.h"
#include "reports/position_chart.h"
#include "reports/render.h"

namespace turnbench {
namespace {

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
figure { margin: 1rem 0; } .note { color: #555; max-width: 60rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
.warning { background: #b00; color: #fff; font-weight: 600; padding: .4rem .7rem; }
pre { background: #f6f6f6; padding: .7rem; overflow-x: auto; font-size: 13px; }
)";

std::string entry_cell(const std::optional<Pivot::Entry>& e) {
  if (!e) return "<td></td>";
  if (e->estimate.turns == 0)
    return fmt::format("<td class=\"failed\">{} failed</td>", e->estimate.failed);
  // Worse than the baseline beyond doubt: the whole interval of the paired difference is below
  // zero.
  const bool worse = e->difference && e->difference->high < 0;
  std::string out = fmt::format("<td{}>{:.1f} <span class=\"interval\">[{:.1f}, {:.1f}]</span>",
                                worse ? " class=\"worse\"" : "", e->estimate.mean, e->estimate.low,
                                e->estimate.high);
  if (e->difference) {
    out += fmt::format("<span class=\"difference\">{:+.1f} [{:+.1f}, {:+.1f}]</span>",
                       e->difference->mean, e->difference->low, e->difference->high);
  }
  if (e->published) {
    out += fmt::format("<span class=\"difference\">paper {:.2f} ({:+.2f})</span>", *e->published,
                       e->estimate.mean - *e->published);
  }
  if (e->estimate.failed > 0)
    out += fmt::format("<span class=\"difference\">{} failed</span>", e->estimate.failed);
  return out + "</td>";
}

std::string counter_cell(const Pivot& p, std::size_t row, const std::string& name, int digits) {
  const std::optional<double> mean = p.mean_counter(row, name);
  return mean ? fmt::format("<td>{:.{}f}</td>", *mean, digits) : "<td></td>";
}

std::string table(const Pivot& p) {
  std::string out = "<div class=\"table\"><table><thead><tr>";
  for (const std::string& d : p.row_dimensions)
    out += "<th class=\"label\">" + escape_markup(d) + "</th>";
  for (const auto& c : p.columns) out += "<th>" + escape_markup(join(c, " / ")) + "</th>";
  const bool counters = p.has_counters();
  if (counters) {
    out +=
        "<th title=\"tokens cached per KV head when the answer begins\">kept</th>"
        "<th title=\"tokens that a decode step attends to, per KV head\">read</th>"
        "<th title=\"share of the causal pairs that prefill attention computes\">pairs</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    out += "<tr>";
    for (const std::string& value : p.rows[r])
      out += "<td class=\"label\">" + escape_markup(value) + "</td>";
    for (const auto& e : p.entries[r]) out += entry_cell(e);
    if (counters) {
      out += counter_cell(p, r, "kv_tokens", 0) + counter_cell(p, r, "attended_tokens", 0) +
             counter_cell(p, r, "prefill_pairs_share", 2);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string render_html(const Results& results) {
  const Manifest& m = results.manifest();
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
      escape_markup(m.title) + "</title><style>" + kStyle + "</style></head><body>\n";
  out += "<h1>" + escape_markup(m.title) + "</h1>\n<p class=\"note\">" +
         escape_markup(m.description) + "</p>\n";
  const std::string warning =
      m.smoke.empty() ? "" : "<p class=\"warning\">" + escape_markup(m.smoke) + "</p>\n";
  for (const TableSpec& spec : m.tables) {
    const Pivot p = make_pivot(results, spec);
    out += "<h2>" + escape_markup(p.title.empty() ? "Results" : p.title) + "</h2>\n" + warning +
           table(p);
    if (!p.baseline.empty()) {
      out += "<p class=\"note\">Second line: paired difference to " + escape_markup(p.baseline) +
             ". Shaded: worse than it, the whole 95% interval of the difference below zero.</p>\n";
    }
  }
  out +=
      "<p class=\"note\">Means x100 with 95% intervals: percentile bootstrap over dialogues, 2,000 "
      "resamples; datasets "
      "weigh the same.</p>\n";
  if (results.truncation().cut > 0)
    out += "<p class=\"note\">" + text_of(results.truncation()) + ".</p>\n";
  if (results.pending() > 0) {
    out += fmt::format("<p class=\"note failed\">{} dialogues have not run yet.</p>\n",
                       results.pending());
  }
  out += "<h2>By position of the question</h2>\n<figure>" +
         render_svg(position_chart(results, "")) + "</figure>\n";
  std::vector<std::string> datasets;
  for (const Cell& c : results.cells()) {
    if (std::find(datasets.begin(), datasets.end(), c.dataset) == datasets.end())
      datasets.push_back(c.dataset);
  }
  if (datasets.size() > 1) {
    for (const std::string& d : datasets)
      out += "<figure>" + render_svg(position_chart(results, d)) + "</figure>\n";
  }
  out += "<h2>Protocol</h2>\n";
  std::map<std::string, Truncation> truncations;  // by card: of the cells that have it
  std::set<std::string> cells, cards;
  for (const Cell& c : results.cells()) {
    if (cells.insert(c.key).second) truncations[c.protocol] += results.truncation(c.key);
  }
  for (const Cell& c : results.cells()) {
    if (!cards.insert(c.protocol).second) continue;
    const std::string cut = text_of(truncations[c.protocol]);
    out += "<details><summary>" + escape_markup(c.model + ", " + c.dataset) + "</summary><pre>" +
           escape_markup(c.protocol_text) + "</pre>" +
           (cut.empty() ? "" : "<p class=\"note\">" + cut + ".</p>") + "</details>\n";
  }
  out += "<details><summary>manifest</summary><pre>" + escape_markup(m.text) + "</pre></details>\n";
  for (const std::string& e : results.environments()) {
    out += "<details><summary>environment</summary><pre>" + escape_markup(e) + "</pre></details>\n";
  }
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
