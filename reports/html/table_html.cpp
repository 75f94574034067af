#include "reports/html/table_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/html/text_html.h"
#include "reports/marks.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

enum class Shade { kNone, kWorse, kBetter };

/// Whether an entry is significantly worse or better than the table's first baseline.
Shade shade(const Pivot::Entry& e) {
  if (e.differences.empty() || !e.differences.front()) return Shade::kNone;
  const Difference& difference = *e.differences.front();
  const double mean = difference.estimate.mean;
  if (mean == 0 || difference.against_zero.adjusted > kShadedP) return Shade::kNone;
  return (mean > 0) == e.unit->lower_is_better ? Shade::kWorse : Shade::kBetter;
}

/// The word for better or worse values of a table: "more", if all of its quantities agree.
const char* direction(const Pivot& p, bool better) {
  const bool lower = p.values.front()->lower_is_better;
  const bool alike = std::all_of(p.values.begin(), p.values.end(), [&](const TableValue* value) {
    return value->lower_is_better == lower;
  });
  if (!alike) return better ? "better" : "worse";
  return lower == better ? "less" : "more";
}

/// A line below the mean of an entry.
std::string second_line(const std::string& text) {
  return "<span class=\"difference\">" + text + "</span>";
}

std::string data_html(double value, const std::string& text) {
  return fmt::format("<data value=\"{}\">{}</data>", value, text);
}

/// The attributes of an entry: its shade, and the cells and the turn that it shows.
std::string entry_attributes(const Pivot::Entry& e, const std::string& classes) {
  std::vector<std::string> cells;
  for (std::size_t cell : e.cells) cells.push_back(std::to_string(cell));
  std::string out = classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
  out += fmt::format(" data-cells=\"{}\"", join(cells, " "));
  if (e.turn >= 0) out += fmt::format(" data-turn=\"{}\"", e.turn);
  return out;
}

std::string entry_html(const std::optional<Pivot::Entry>& e) {
  if (!e) return "<td></td>";
  const Estimate& x = e->estimate;
  const int digits = e->unit->digits;
  if (!x.known) {
    const std::string paper =
        e->published ? second_line("paper " + published_text(*e->published, digits)) : "";
    if (e->missing.empty()) {
      return fmt::format("<td{}><span class=\"none\">{} failed</span>{}</td>",
                         entry_attributes(*e, "failed"), x.failed, paper);
    }
    return fmt::format("<td title=\"missing: {}\"{}><span class=\"none\">–</span>{}</td>",
                       escape_markup(join(e->missing, ", ")), entry_attributes(*e, ""), paper);
  }
  const std::string mean = number_text(x.mean, digits);
  const Shade shaded = shade(*e);
  std::vector<std::string> classes;
  if (shaded != Shade::kNone) classes.push_back(shaded == Shade::kWorse ? "worse" : "better");
  if (e->mark != Mark::kNone) classes.push_back(e->mark == Mark::kBest ? "best" : "second");
  std::string out =
      "<td" + entry_attributes(*e, join(classes, " ")) + ">" + data_html(x.mean, mean);
  if (x.interval)
    out += " <span class=\"interval\">" + interval_text(*x.interval, digits) + "</span>";
  for (const std::optional<Difference>& d : e->differences) {
    if (!e->has_difference()) break;
    if (!d) {
      out += second_line("–");
      continue;
    }
    out += second_line(estimate_text(d->estimate, digits, /*sign=*/true) + ", " +
                       escape_markup(tests_text(*d)));
  }
  if (e->published) {
    out += second_line(fmt::format("paper {} ({}{})", published_text(*e->published, digits),
                                   published_text(x.mean - *e->published, digits, /*sign=*/true),
                                   escape_markup(equivalence_text(e->published_equivalence))));
  }
  if (x.failed > 0) out += second_line(fmt::format("{} failed", x.failed));
  return out + "</td>";
}

/// The heads of the columns, in two rows if the columns have two dimensions: neighbours with the
/// same first value share a cell of the upper row.
std::string head_html(const Pivot& p) {
  const bool two_rows = p.column_dimensions.size() > 1;
  const std::string span = two_rows ? " rowspan=\"2\"" : "";
  std::string upper, lower;
  for (const std::string& d : p.row_dimensions) {
    upper += fmt::format("<th scope=\"col\" class=\"label\"{}>{}</th>", span,
                         escape_markup(dimension_heading(d)));
  }
  for (std::size_t c = 0; c < p.columns.size(); ++c) {
    const std::vector<std::string>& column = p.columns[c];
    const std::string whole = value_heading(p.column_dimensions, column), head = p.column_head(c);
    const std::string title = head != whole ? " title=\"" + escape_markup(whole) + "\"" : "";
    if (!two_rows) {
      upper += fmt::format("<th scope=\"col\"{}>{}</th>", title, escape_markup(head));
      continue;
    }
    const bool begins = c == 0 || column.front() != p.columns[c - 1].front();
    if (begins) {
      std::size_t count = 1;
      while (c + count < p.columns.size() && p.columns[c + count].front() == column.front())
        ++count;
      upper += fmt::format("<th scope=\"colgroup\" class=\"group\" colspan=\"{}\">{}</th>", count,
                           escape_markup(p.column_head(c, 0)));
    }
    std::vector<std::string> inner;
    for (std::size_t d = 1; d < column.size(); ++d) inner.push_back(p.column_head(c, d));
    lower += fmt::format("<th scope=\"col\"{}{}>{}</th>", begins ? " class=\"group\"" : "", title,
                         escape_markup(join(inner, " / ")));
  }
  for (const ReportedCounter& c : p.shown_counters()) {
    upper += fmt::format("<th scope=\"col\" class=\"counter\" title=\"{}\"{}>{}</th>", c.meaning,
                         span, c.heading);
  }
  std::string out = "<thead><tr>" + upper + "</tr>";
  if (two_rows) out += "<tr>" + lower + "</tr>";
  return out + "</thead>";
}

/// The label of a row.  A label of several rows is in the first of them.
std::string label_cell_html(const Pivot& p, std::size_t row, std::size_t dimension) {
  const std::size_t span = p.row_span(row, dimension);
  if (span == 0) return "";
  const std::string label = p.row_label(row, dimension);
  const std::string& whole = p.rows[row][dimension];
  return fmt::format("<th scope=\"{}\" class=\"label\"{}{}>{}</th>", span > 1 ? "rowgroup" : "row",
                     span > 1 ? fmt::format(" rowspan=\"{}\"", span) : "",
                     label != whole ? " title=\"" + escape_markup(whole) + "\"" : "",
                     label_html(label));
}

std::string counter_html(const Pivot& p, std::size_t row, const ReportedCounter& counter) {
  const auto found = p.counters[row].find(counter.name);
  if (found == p.counters[row].end()) return "<td class=\"counter\"></td>";
  return "<td class=\"counter\">" +
         data_html(found->second.low, p.counter_text(row, counter.name)) + "</td>";
}

}  // namespace

std::string table_html(const Pivot& p, const std::string& heading) {
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{}\"><table><caption>"
      "{}</caption>{}<tbody>\n",
      heading, escape_markup(p.title.empty() ? "Results" : p.title), head_html(p));
  const std::vector<ReportedCounter> counters = p.shown_counters();
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    out += "<tr>";
    for (std::size_t d = 0; d < p.row_dimensions.size(); ++d) out += label_cell_html(p, r, d);
    for (const auto& entry : p.entries[r]) out += entry_html(entry);
    for (const ReportedCounter& c : counters) out += counter_html(p, r, c);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string table_notes_html(const Pivot& p) {
  std::string out;
  if (p.shows_shares()) out += note_html("Means are x100.");
  if (p.has_differences()) {
    const std::string& baseline = p.baselines.front();
    out += note_html(fmt::format("Shaded, p at most {}: {} than {} (orange), {} than {} (blue).",
                                 kShadedP, direction(p, /*better=*/false), baseline,
                                 direction(p, /*better=*/true), baseline));
  }
  out += note_html(marks_note({&p}, "Bold", "Underlined"));
  out += note_html(p.basis_note(true));
  out += note_html(p.label_note());
  for (const std::string& note : p.notes) out += note_html(note);
  if (p.comparability.empty()) return out;
  out +=
      fmt::format("<details class=\"note\"><summary>{}</summary><ul>\n", escape_markup(kNotAlike));
  for (const ComparabilityRemark& remark : p.comparability)
    out += "<li>" + escape_markup(describe(remark)) + "</li>\n";
  return out + "</ul></details>\n";
}

}  // namespace turnbench
