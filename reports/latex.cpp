// Tables for papers: booktabs, and as wide as the page.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/latex_table.h"
#include "reports/marks.h"
#include "reports/notes.h"
#include "reports/render.h"
#include "reports/report_file.h"

namespace turnbench {
namespace {

using Range = LatexFit::Range;

/// A line below a table.
std::string note_text(const std::string& note) {
  return "\\par{\\footnotesize\\raggedright " + breakable_latex(replace_all(note, "–", "--")) +
         "\\par}\n";
}

/// Writes the parts of one table.
class TableWriter {
 public:
  explicit TableWriter(LatexTable table) : table_(std::move(table)), fit_(fit_to_page(table_)) {}

  const LatexFit& fit() const { return fit_; }
  /// The parts of the table, each with some rows and some columns, in groups that fill a page.
  std::vector<std::vector<std::string>> pages() const;

 private:
  /// `is_first`: the first row of a part, which has all of its labels.
  std::vector<std::string> row_lines(std::size_t row, Range columns, bool is_first) const;
  std::string head(Range columns) const;
  std::string part(Range columns, Range rows) const;

  LatexTable table_;
  LatexFit fit_;
};

std::vector<std::string> TableWriter::row_lines(std::size_t row, Range columns,
                                                bool is_first) const {
  std::vector<std::vector<std::string>> fields;  // [field][line]
  for (std::size_t d = 0; d < table_.labels[row].size(); ++d) {
    std::vector<std::string>& lines = fields.emplace_back();
    if (table_.repeats[row][d] && !is_first) continue;
    for (const std::string& line : label_lines(table_.labels[row][d], fit_))
      lines.push_back((lines.empty() ? "" : "\\quad ") + escape_latex(line));
  }
  for (std::size_t c = columns.from; c < columns.to; ++c) {
    std::vector<std::string>& lines = fields.emplace_back();
    for (const LatexField& line : table_.entries[row][c]) lines.push_back(line.text);
  }
  std::size_t height = 1;
  for (const auto& lines : fields) height = std::max(height, lines.size());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < height; ++i) {
    std::vector<std::string> line;
    for (const auto& lines : fields) line.push_back(i < lines.size() ? lines[i] : "");
    out.push_back(join(line, " & ") + " \\\\\n");
  }
  return out;
}

/// The heads of the columns, one level below the other, with rules below heads of several columns.
std::string TableWriter::head(Range columns) const {
  std::string out;
  const std::size_t labels = table_.label_heads.size();
  for (std::size_t level = 0; level < table_.levels(); ++level) {
    const bool is_last = level + 1 == table_.levels();
    struct Head {
      std::size_t span;
      std::vector<std::string> lines;
    };
    std::vector<Head> heads;
    std::size_t height = 1;
    std::string rules;
    for (std::size_t c = columns.from; c < columns.to;) {
      const std::size_t span = is_last ? 1 : table_.span(c, level, columns.to);
      double width = 0;
      for (std::size_t i = c; i < c + span; ++i) width += entry_width(table_, i);
      heads.push_back({span, head_lines(table_.heads[c][level], width, fit_)});
      height = std::max(height, heads.back().lines.size());
      if (!is_last) {
        const std::size_t first = labels + c - columns.from + 1;
        rules += fmt::format("\\cmidrule(lr){{{}-{}}}", first, first + span - 1);
      }
      c += span;
    }
    for (std::size_t i = 0; i < height; ++i) {
      std::vector<std::string> line;
      for (const std::string& label : table_.label_heads)
        line.push_back(is_last && i + 1 == height ? escape_latex(label) : "");
      for (const Head& head : heads) {
        const std::size_t above = height - head.lines.size();  // heads stand on the line below
        const std::string text = i < above ? "" : escape_latex(head.lines[i - above]);
        line.push_back(head.span == 1 && is_last
                           ? text
                           : fmt::format("\\multicolumn{{{}}}{{c}}{{{}}}", head.span, text));
      }
      out += join(line, " & ") + " \\\\\n";
    }
    if (!rules.empty()) out += rules + "\n";
  }
  return out;
}

std::string TableWriter::part(Range columns, Range rows) const {
  std::string out = fmt::format("\\begin{{tabular}}{{{}{}}}\n\\toprule\n",
                                std::string(table_.label_heads.size(), 'l'),
                                std::string(columns.to - columns.from, 'r'));
  out += head(columns) + "\\midrule\n";
  bool spaced = false;
  for (std::size_t r = rows.from; r < rows.to; ++r)
    spaced |= row_lines(r, columns, r == rows.from).size() > 1;
  for (std::size_t r = rows.from; r < rows.to; ++r) {
    if (r > rows.from && table_.begins_group[r])
      out += "\\midrule\n";
    else if (r > rows.from && spaced)
      out += "\\addlinespace\n";
    out += join(row_lines(r, columns, r == rows.from), "");
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

std::vector<std::vector<std::string>> TableWriter::pages() const {
  std::vector<std::vector<std::string>> out(1);
  double filled = 0;
  for (const Range& columns : fit_.panels) {
    for (std::size_t from = 0; from < table_.labels.size();) {
      double height = kHeadHeight * fit_.size->line;
      std::size_t to = from;
      while (to < table_.labels.size() &&
             (to == from || height + row_height(table_, fit_, to, columns) <= kMostHeight))
        height += row_height(table_, fit_, to++, columns);
      if (filled > 0 && filled + height > kMostHeight) {
        out.emplace_back();
        filled = 0;
      }
      out.back().push_back(part(columns, {from, to}));
      filled += height;
      from = to;
    }
  }
  return out;
}

/// The table with the widest entries with which it has the fewest panels.
TableWriter best_fit(const Pivot& pivot, const EntryColumns& columns) {
  TableWriter out(LatexTable(pivot, columns, EntryLines::kWide));
  for (const EntryLines lines : {EntryLines::kMedium, EntryLines::kNarrow}) {
    if (out.fit().panels.size() == 1) break;
    TableWriter narrower(LatexTable(pivot, columns, lines));
    if (narrower.fit().panels.size() < out.fit().panels.size()) out = std::move(narrower);
  }
  return out;
}

/// The notes of a table that belong under it on its page.
std::string short_notes(const Pivot& p, const EntryColumns& columns, const std::string& marks) {
  std::string out;
  const std::string basis = p.basis_note(columns.difference);
  if (!basis.empty()) out += note_text(basis);
  if (!p.label_note().empty()) out += note_text(p.label_note());
  if (!marks.empty()) out += note_text(marks);
  return out.empty() ? out : "\\begin{minipage}{\\linewidth}\n" + out + "\\end{minipage}\n";
}

std::string floats(const Pivot& p, const EntryColumns& columns, const std::string& warning,
                   const std::string& label, const std::string& notes) {
  const TableWriter writer = best_fit(p, columns);
  const LatexFit& fit = writer.fit();
  const std::string environment = fit.spans_page ? "table*" : "table";
  std::string out;
  const std::vector<std::vector<std::string>> pages = writer.pages();
  for (std::size_t i = 0; i < pages.size(); ++i) {
    out += fmt::format("\\begin{{{}}}\n\\centering\n", environment);
    if (i > 0) out += "\\addtocounter{table}{-1}\n";
    out += "\\caption{";
    if (!warning.empty()) out += "\\textbf{" + breakable_latex(warning) + "} ";
    out += breakable_latex(p.title.empty() ? "Results" : p.title);
    out += i > 0 ? " (continued)}\n" : "}\n\\label{" + label + "}\n";
    out += "\\medskip\n";
    out +=
        fmt::format("{}\n\\setlength{{\\tabcolsep}}{{{}pt}}\n", fit.size->command, fit.separation);
    out += join(pages[i], "\\par\\medskip\n");
    if (i + 1 == pages.size() && !notes.empty()) out += "\\par\\medskip\n" + notes;
    out += fmt::format("\\end{{{}}}\n", environment);
  }
  return out;
}

}  // namespace

std::string render_latex(const Results& results, const Comparison& comparison,
                         const EntryColumns& columns) {
  std::string out;
  std::vector<Pivot> pivots;
  pivots.reserve(results.tables().size());
  for (std::size_t i = 0; i < results.tables().size(); ++i) {
    const Pivot& p = pivots.emplace_back(make_pivot(results, results.tables()[i], comparison));
    out += out.empty() ? std::string(kLatexMark) + "% \\usepackage{booktabs}\n" : "\n";
    if (!p.title.empty()) out += "% " + one_line(p.title) + "\n";
    const std::string marks = columns.mean ? marks_note({&p}, "Bold", "Underlined") : std::string();
    out += floats(p, columns, results.manifest().smoke,
                  fmt::format("tab:{}-{}", results.manifest().name, results.table_number(i)),
                  short_notes(p, columns, marks));
    for (const std::string& note : p.notes) out += note_text(note);
    if (!p.comparability.empty()) out += note_text(kNotAlike);
    for (const ComparabilityRemark& remark : p.comparability) out += note_text(describe(remark));
  }
  out += note_text(caption(pivots, "in parentheses", /*counters=*/false, columns));
  for (const std::string& note : notes(results)) out += note_text(note);
  return out;
}

}  // namespace turnbench
