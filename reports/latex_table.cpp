#include "reports/latex_table.h"

#include <algorithm>
#include <cmath>

#include "common/text.h"
#include "reports/headings.h"

namespace turnbench {
namespace {

constexpr double kTextWidth = 469.75, kColumnWidth = 229.87;  // points
constexpr double kTolerance = 1.02;  // the widths of characters are without kerning
constexpr double kIndent = 1;        // \quad
constexpr double kLabelShare = .3;   // of the width, for labels of several lines
constexpr double kRowSpace = 5;      // \addlinespace, in points
constexpr double kShortestHead = 4;  // heads of narrow columns are not divided below this width

/// The width of the columns of labels, in font sizes.
double labels_width(const LatexTable& table, const LatexFit& fit) {
  double out = 0;
  for (std::size_t d = 0; d < table.label_heads.size(); ++d) {
    double width = latex_width(table.label_heads[d]);
    for (const std::vector<std::string>& row : table.labels) {
      const std::vector<std::string> lines = label_lines(row[d], fit);
      for (std::size_t i = 0; i < lines.size(); ++i)
        width = std::max(width, latex_width(lines[i]) + (i > 0 ? kIndent : 0));
    }
    out += width;
  }
  return out;
}

/// The width in points of a table of some columns.
double width_of(const LatexTable& table, const LatexFit& fit, LatexFit::Range range) {
  const std::size_t last = table.levels() - 1;
  const double gap = 2 * fit.separation / fit.size->points;  // between two columns
  std::vector<double> widths;
  for (std::size_t c = range.from; c < range.to; ++c) {
    double width = entry_width(table, c);
    for (const std::string& line : head_lines(table.heads[c][last], width, fit))
      width = std::max(width, latex_width(line));
    widths.push_back(width);
  }
  // A head above several columns may be wider than these.
  for (std::size_t level = last; level-- > 0;) {
    for (std::size_t c = range.from; c < range.to; c += table.span(c, level, range.to)) {
      const std::size_t count = table.span(c, level, range.to);
      double inner = static_cast<double>(count - 1) * gap;
      for (std::size_t i = 0; i < count; ++i) inner += widths[c - range.from + i];
      double needed = 0;
      for (const std::string& line : head_lines(table.heads[c][level], inner, fit))
        needed = std::max(needed, latex_width(line));
      widths[c - range.from + count - 1] += std::max(0.0, needed - inner);
    }
  }
  double sum = labels_width(table, fit);
  for (const double width : widths) sum += width;
  return kTolerance * sum * fit.size->points +
         2 * fit.separation * static_cast<double>(table.label_heads.size() + widths.size());
}

/// As many columns in each panel as fit, without dividing columns that share an outer head if
/// possible.
std::vector<LatexFit::Range> panels(const LatexTable& table, const LatexFit& fit) {
  std::vector<LatexFit::Range> out;
  const std::size_t count = table.heads.size();
  for (std::size_t from = 0; from < count;) {
    std::size_t to = from + 1;
    while (to < count && width_of(table, fit, {from, to + 1}) <= kTextWidth) ++to;
    std::size_t boundary = to;
    while (boundary < count && boundary > from && table.continues[boundary].front()) --boundary;
    if (boundary > from) to = boundary;
    out.push_back({from, to});
    from = to;
  }
  if (out.empty()) out.push_back({0, 0});
  return out;
}

}  // namespace

LatexTable::LatexTable(const Pivot& pivot, const EntryColumns& columns, EntryLines lines) {
  for (const std::string& dimension : pivot.row_dimensions)
    label_heads.push_back(dimension_heading(dimension));
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    std::vector<std::string>& of_row = labels.emplace_back();
    std::vector<bool>& as_above = repeats.emplace_back();
    for (std::size_t d = 0; d < pivot.row_dimensions.size(); ++d) {
      of_row.push_back(pivot.row_label(r, d));
      as_above.push_back(pivot.row_span(r, d) == 0);
    }
    begins_group.push_back(r > 0 && pivot.row_dimensions.size() > 1 &&
                           pivot.rows[r].front() != pivot.rows[r - 1].front());
    std::vector<std::vector<LatexField>>& row = entries.emplace_back();
    for (const auto& entry : pivot.entries[r]) row.push_back(latex_entry(entry, columns, lines));
  }
  for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
    std::vector<std::string>& levels = heads.emplace_back();
    std::vector<bool>& same = continues.emplace_back();
    for (std::size_t d = 0; d < pivot.column_dimensions.size(); ++d) {
      levels.push_back(pivot.column_head(c, d));
      const bool outer = d == 0 || same.back();
      same.push_back(c > 0 && outer && pivot.columns[c][d] == pivot.columns[c - 1][d]);
    }
  }
}

std::size_t LatexTable::span(std::size_t column, std::size_t level, std::size_t end) const {
  std::size_t out = 1;
  while (column + out < end && continues[column + out][level]) ++out;
  return out;
}

double entry_width(const LatexTable& table, std::size_t column) {
  double out = 0;
  for (const auto& row : table.entries) {
    for (const LatexField& line : row[column]) out = std::max(out, line.width);
  }
  return out;
}

std::vector<std::string> label_lines(const std::string& label, const LatexFit& fit) {
  if (fit.label_width <= 0) return {label};
  return latex_lines(label, fit.label_width);
}

std::vector<std::string> head_lines(const std::string& head, double width, const LatexFit& fit) {
  if (fit.head_width <= 0) return {head};
  return latex_lines(head, std::max(width, fit.head_width));
}

double row_height(const LatexTable& table, const LatexFit& fit, std::size_t row,
                  LatexFit::Range columns) {
  std::size_t lines = 1;
  for (std::size_t d = 0; d < table.labels[row].size(); ++d) {
    if (!table.repeats[row][d])
      lines = std::max(lines, label_lines(table.labels[row][d], fit).size());
  }
  for (std::size_t c = columns.from; c < columns.to; ++c)
    lines = std::max(lines, table.entries[row][c].size());
  return static_cast<double>(lines) * fit.size->line + (lines > 1 ? kRowSpace : 0);
}

LatexFit fit_to_page(const LatexTable& table) {
  const LatexFit::Range all{0, table.heads.size()};
  LatexFit fit;
  const auto fits = [&](double width, bool on_one_page) {
    if (width_of(table, fit, all) > width) return false;
    double height = kHeadHeight * fit.size->line;
    for (std::size_t r = 0; r < table.labels.size(); ++r) height += row_height(table, fit, r, all);
    return !on_one_page || height <= kMostHeight;
  };
  const auto try_sizes = [&](double width, std::size_t sizes, bool on_one_page) {
    for (std::size_t s = 0; s < sizes; ++s) {
      fit.size = &latex_sizes()[s];
      for (const bool divided : {false, true}) {
        fit.label_width = divided ? kLabelShare * width / fit.size->points : 0;
        fit.head_width = divided ? kShortestHead : 0;
        for (const double separation : {6.0, 4.0, 3.0}) {
          fit.separation = separation;
          if (fits(width, on_one_page)) return true;
        }
      }
    }
    return false;
  };
  constexpr std::size_t kSizesInColumn = 2;  // a table in smaller type spans the page
  const std::size_t all_sizes = latex_sizes().size();
  for (const bool on_one_page : {true, false}) {
    for (const bool spans_page : {false, true}) {
      fit.spans_page = spans_page;
      fit.panels = {all};
      if (try_sizes(spans_page ? kTextWidth : kColumnWidth, spans_page ? all_sizes : kSizesInColumn,
                    on_one_page))
        return fit;
    }
  }
  fit.panels = panels(table, fit);
  return fit;
}

}  // namespace turnbench
