#include <fmt/format.h>

#include "common/text.h"
#include "reports/render.h"

namespace turnbench {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '\\':
        out += "\\textbackslash{}";
        break;
      case '~':
        out += "\\textasciitilde{}";
        break;
      case '^':
        out += "\\textasciicircum{}";
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

std::string entry_text(const std::optional<Pivot::Entry>& e) {
  if (!e) return "--";
  if (e->estimate.turns == 0) return fmt::format("failed ({})", e->estimate.failed);
  std::string out = fmt::format("${:.1f} \\pm {:.1f}$", e->estimate.mean, e->estimate.half_width());
  if (e->difference)
    out +=
        fmt::format(" (${:+.1f} \\pm {:.1f}$)", e->difference->mean, e->difference->half_width());
  if (e->published)
    out += fmt::format(" [{:.2f}, ${:+.2f}$]", *e->published, e->estimate.mean - *e->published);
  if (e->estimate.failed > 0) out += fmt::format(" {} failed", e->estimate.failed);
  return out;
}

}  // namespace

std::string render_latex(const Results& results) {
  std::string out;
  for (const TableSpec& spec : results.manifest().tables) {
    const Pivot p = make_pivot(results, spec);
    if (!out.empty()) out += "\n";
    if (!p.title.empty()) out += "% " + p.title + "\n";
    std::vector<std::string> header;
    for (const std::string& d : p.row_dimensions) header.push_back(escaped(d));
    for (const auto& column : p.columns) header.push_back(escaped(join(column, " / ")));
    out +=
        fmt::format("\\begin{{tabular}}{{{}{}}}\n\\hline\n",
                    std::string(p.row_dimensions.size(), 'l'), std::string(p.columns.size(), 'r'));
    const std::string& warning = results.manifest().smoke;
    if (!warning.empty()) {
      out += fmt::format("\\multicolumn{{{}}}{{l}}{{\\textbf{{{}}}}} \\\\\n", header.size(),
                         escaped(warning));
    }
    out += join(header, " & ") + " \\\\\n\\hline\n";
    for (std::size_t r = 0; r < p.rows.size(); ++r) {
      std::vector<std::string> fields;
      for (const std::string& value : p.rows[r]) fields.push_back(escaped(value));
      for (const auto& e : p.entries[r]) fields.push_back(entry_text(e));
      out += join(fields, " & ") + " \\\\\n";
    }
    out += "\\hline\n";
    if (const std::string cut = text_of(results.truncation()); !cut.empty()) {
      out +=
          fmt::format("\\multicolumn{{{}}}{{l}}{{\\footnotesize {}.}} \\\\\n", header.size(), cut);
    }
    out += "\\end{tabular}\n";
  }
  return out;
}

}  // namespace turnbench
