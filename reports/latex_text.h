#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Width of text in Computer Modern Roman, in units of the font size.  Characters that the font
/// lacks count as one unit.
double latex_width(std::string_view text);

/// Divides text into lines of at most `width` (as `latex_width` counts), at spaces and after the
/// characters : , + / where possible.  A longer word has a line of its own.
std::vector<std::string> latex_lines(std::string_view text, double width);

/// Escapes a text that LaTeX may break at spaces and after the characters : , = + / _
std::string breakable_latex(std::string_view text);

/// A font size that LaTeX names, in an `article` of 11 points.
struct LatexSize {
  const char* command;  ///< "\small"
  double points;        ///< width of `latex_width` 1
  double line;          ///< height of a line, in points
};
/// From \normalsize to \scriptsize.
const std::vector<LatexSize>& latex_sizes();

}  // namespace turnbench
