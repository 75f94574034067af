#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/marks.h"
#include "reports/notes.h"
#include "reports/number_text.h"
#include "reports/render.h"

namespace turnbench {
namespace {

/// Bold for the best entry of a column, italic for the second best.
std::string marked(const std::string& number, Mark mark) {
  const char* const marks[] = {"", "**", "*"};
  const char* around = marks[static_cast<int>(mark)];
  return around + number + around;
}

/// "-27.4 [-32.2, -22.6], p <0.001"
std::string difference_text(const Difference& difference, int digits, bool interval) {
  Estimate estimate = difference.estimate;
  if (!interval) estimate.interval.reset();
  return estimate_text(estimate, digits, /*sign=*/true) + ", " + tests_text(difference);
}

/// The parts of an entry with a mean that are separated by spaces.
std::vector<std::string> parts_of(const Pivot::Entry& e, const EntryColumns& columns) {
  std::vector<std::string> out;
  const Estimate& x = e.estimate;
  const int digits = e.unit->digits;
  if (columns.mean) out.push_back(marked(number_text(x.mean, digits), e.mark));
  if (columns.interval && x.interval && (columns.mean || !columns.difference))
    out.push_back(interval_text(*x.interval, digits));
  for (const std::optional<Difference>& d : e.differences) {
    if (!columns.difference || !e.has_difference()) break;
    out.push_back(d ? "(" + difference_text(*d, digits, columns.interval) + ")" : "(–)");
  }
  if (columns.published && e.published) {
    out.push_back(fmt::format("[paper {}, {}{}]", published_text(*e.published, digits),
                              published_text(x.mean - *e.published, digits, /*sign=*/true),
                              equivalence_text(e.published_equivalence)));
  }
  if (x.failed > 0) out.push_back(fmt::format("{} failed", x.failed));
  return out;
}

/// "92.4 [88.1, 95.2]", with the differences to the baselines and to the published number, if any.
std::string entry_text(const Pivot::Entry& e, const EntryColumns& columns) {
  if (e.estimate.known) return join(parts_of(e, columns), " ");
  std::string out =
      e.missing.empty() ? fmt::format("failed ({})", e.estimate.failed) : std::string("–");
  if (columns.published && e.published)
    out += fmt::format(" [paper {}]", published_text(*e.published, e.unit->digits));
  return out;
}

/// Whether a table has columns of counters: each row is one method, and not all are probes.
bool shows_counters(const Pivot& p) {
  const auto is_setting = [](const std::string& name) {
    return name == "model" || name == "method" || name == "history" || name == "answers";
  };
  const std::vector<std::string>& rows = p.row_dimensions;
  return p.has_counters() && std::all_of(rows.begin(), rows.end(), is_setting) &&
         std::find(rows.begin(), rows.end(), "method") != rows.end();
}

std::string markdown_table(const Pivot& p, const std::string& warning,
                           const EntryColumns& columns) {
  std::string out;
  if (!p.title.empty()) out += "**" + escape_markdown(p.title) + "**\n\n";
  if (!warning.empty()) out += "> **" + escape_markdown(warning) + "**\n\n";
  const bool counted = shows_counters(p);
  const std::vector<ReportedCounter> shown = p.shown_counters();
  std::vector<std::string> header;
  for (const std::string& d : p.row_dimensions)
    header.push_back(escape_markdown(dimension_heading(d)));
  for (std::size_t c = 0; c < p.columns.size(); ++c)
    header.push_back(escape_markdown(p.column_head(c)));
  if (counted) {
    for (const ReportedCounter& c : shown) header.emplace_back(c.heading);
  }
  out += markdown_row(header) + "|";
  for (std::size_t i = 0; i < header.size(); ++i)
    out += i < p.row_dimensions.size() ? " --- |" : " ---: |";
  out += "\n";
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    std::vector<std::string> fields;
    for (const std::string& label : p.merged_labels(r)) fields.push_back(escape_markdown(label));
    for (const auto& e : p.entries[r]) fields.push_back(e ? entry_text(*e, columns) : "");
    if (counted) {
      for (const ReportedCounter& c : shown) fields.push_back(p.counter_text(r, c.name));
    }
    out += markdown_row(fields);
  }
  for (const std::string& note : {p.basis_note(columns.difference), p.label_note()}) {
    if (!note.empty()) out += "\n" + markdown_paragraph(note) + "\n";
  }
  for (const std::string& note : p.notes) out += "\n" + markdown_paragraph(note) + "\n";
  if (!p.comparability.empty()) out += "\n" + std::string(kNotAlike) + "\n\n";
  for (const ComparabilityRemark& remark : p.comparability)
    out += "- " + markdown_paragraph(describe(remark)) + "\n";
  return out;
}

}  // namespace

std::string render_markdown(const Results& results, const Comparison& comparison,
                            const EntryColumns& columns) {
  const Manifest& m = results.manifest();
  std::string out = "# " + escape_markdown(m.title) + "\n\n";
  if (!m.description.empty()) out += markdown_paragraph(m.description) + "\n\n";
  std::vector<Pivot> pivots;
  for (const TableSpec& spec : results.tables()) {
    pivots.push_back(make_pivot(results, spec, comparison));
    out += markdown_table(pivots.back(), m.smoke, columns) + "\n";
  }
  const bool counted = std::any_of(pivots.begin(), pivots.end(), shows_counters);
  out += markdown_paragraph(caption(pivots, "in parentheses", counted, columns)) + "\n";
  std::vector<const Pivot*> all;
  for (const Pivot& pivot : pivots) all.push_back(&pivot);
  if (const std::string marks = marks_note(all, "Bold", "Italic"); columns.mean && !marks.empty())
    out += "\n" + markdown_paragraph(marks) + "\n";
  for (const std::string& note : notes(results)) out += "\n" + markdown_paragraph(note) + "\n";
  return out;
}

}  // namespace turnbench
