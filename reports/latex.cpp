#include <fmt/format.h>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/notes.h"
#include "reports/number_text.h"
#include "reports/render.h"
#include "reports/report_file.h"

namespace turnbench {
namespace {

/// "$92.4$ [$88.1$, $95.2$]": in math mode, for proper minus signs.
std::string latex_estimate(const Estimate& estimate, int digits, bool sign) {
  const auto number = [&](double x) { return "$" + number_text(x, digits, sign) + "$"; };
  std::string out = number(estimate.mean);
  if (const auto& i = estimate.interval)
    out += fmt::format(" [{}, {}]", number(i->low), number(i->high));
  return out;
}

std::string entry_text(const std::optional<Pivot::Entry>& e) {
  if (!e) return "--";
  const int digits = e->unit->digits;
  if (!e->estimate.known) {
    std::string out = e->missing.empty() ? fmt::format("failed ({})", e->estimate.failed) : "--";
    if (e->published) out += fmt::format(" [paper {}]", published_text(*e->published, digits));
    return out;
  }
  std::string out = latex_estimate(e->estimate, digits, /*sign=*/false);
  if (e->has_difference()) {
    for (const std::optional<Difference>& d : e->differences) {
      out += d ? fmt::format(" ({}, {})", latex_estimate(d->estimate, digits, /*sign=*/true),
                             replace_all(tests_text(*d), "<", "$<$"))
               : " (--)";
    }
  }
  if (e->published) {
    out += fmt::format(" [paper {}, ${}$]", published_text(*e->published, digits),
                       published_text(e->estimate.mean - *e->published, digits, /*sign=*/true));
  }
  if (e->estimate.failed > 0) out += fmt::format(" {} failed", e->estimate.failed);
  return out;
}

/// A line below the tables.
std::string note_text(const std::string& note) {
  return "\\par{\\footnotesize " + escape_latex(replace_all(note, "–", "--")) + "\\par}\n";
}

}  // namespace

std::string render_latex(const Results& results, const Comparison& comparison) {
  std::string out;
  std::vector<Pivot> pivots;
  for (const TableSpec& spec : results.tables()) {
    const Pivot& p = pivots.emplace_back(make_pivot(results, spec, comparison));
    out += out.empty() ? std::string(kLatexMark) : "\n";
    if (!p.title.empty()) out += "% " + one_line(p.title) + "\n";
    std::vector<std::string> header;
    for (const std::string& d : p.row_dimensions)
      header.push_back(escape_latex(dimension_heading(d)));
    for (std::size_t c = 0; c < p.columns.size(); ++c)
      header.push_back(escape_latex(p.column_head(c)));
    out +=
        fmt::format("\\begin{{tabular}}{{{}{}}}\n\\hline\n",
                    std::string(p.row_dimensions.size(), 'l'), std::string(p.columns.size(), 'r'));
    const std::string& warning = results.manifest().smoke;
    if (!warning.empty()) {
      out += fmt::format("\\multicolumn{{{}}}{{l}}{{\\textbf{{{}}}}} \\\\\n", header.size(),
                         escape_latex(warning));
    }
    out += join(header, " & ") + " \\\\\n\\hline\n";
    for (std::size_t r = 0; r < p.rows.size(); ++r) {
      std::vector<std::string> fields;
      for (const std::string& label : p.merged_labels(r)) fields.push_back(escape_latex(label));
      for (const auto& e : p.entries[r]) fields.push_back(entry_text(e));
      out += join(fields, " & ") + " \\\\\n";
    }
    out += "\\hline\n\\end{tabular}\n";
    if (!p.basis.empty()) out += note_text(p.basis);
    if (!p.label_note().empty()) out += note_text(p.label_note());
    for (const std::string& note : p.notes) out += note_text(note);
    if (!p.comparability.empty()) out += note_text(kNotAlike);
    for (const ComparabilityRemark& remark : p.comparability) out += note_text(describe(remark));
  }
  out += note_text(caption(pivots, "in parentheses", /*counters=*/false));
  for (const std::string& note : notes(results)) out += note_text(note);
  return out;
}

}  // namespace turnbench
