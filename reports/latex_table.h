#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/latex_entry.h"
#include "reports/latex_text.h"
#include "reports/pivot.h"

namespace turnbench {

/// A table as lines of fields, before it is fitted to the page.
struct LatexTable {
  LatexTable(const Pivot& pivot, const EntryColumns& columns, EntryLines lines);

  std::vector<std::string> label_heads;          ///< of the columns of labels
  std::vector<std::vector<std::string>> labels;  ///< [row][dimension]
  std::vector<std::vector<bool>> repeats;        ///< [row][dimension]: as in the row above
  std::vector<bool> begins_group;                ///< [row]: another value of the first dimension
  std::vector<std::vector<std::string>> heads;   ///< [column][level]
  /// [column][level]: whether the column has the same head as the one before it, at this and all
  /// outer levels.
  std::vector<std::vector<bool>> continues;
  std::vector<std::vector<std::vector<LatexField>>> entries;  ///< [row][column][line]

  std::size_t levels() const { return heads.empty() ? 1 : heads.front().size(); }
  /// The columns from `column` on that share its head at this level, up to `end`.
  std::size_t span(std::size_t column, std::size_t level, std::size_t end) const;
};

/// Font size, distances and division of a table that fits the page of an `article` of 11 points
/// with margins of one inch.
struct LatexFit {
  struct Range {
    std::size_t from, to;
  };
  const LatexSize* size = nullptr;
  double separation = 6;                   ///< \tabcolsep, in points
  double label_width = 0, head_width = 0;  ///< of lines; 0: heads and labels are not divided
  bool spans_page = false;                 ///< in a document of two columns
  std::vector<Range> panels;               ///< of columns
};
LatexFit fit_to_page(const LatexTable& table);

/// Points of a page that rows may fill: the rest is for heads of pages, captions and notes.
constexpr double kMostHeight = 540;
/// Lines of the heads and rules of a table.
constexpr double kHeadHeight = 6;
/// The height of a row in points.
double row_height(const LatexTable& table, const LatexFit& fit, std::size_t row,
                  LatexFit::Range columns);

/// The lines of a label.  All but the first are indented.
std::vector<std::string> label_lines(const std::string& label, const LatexFit& fit);
/// The lines of a head above columns whose entries have this width.
std::vector<std::string> head_lines(const std::string& head, double width, const LatexFit& fit);
/// The width of a column's entries.
double entry_width(const LatexTable& table, std::size_t column);

}  // namespace turnbench
