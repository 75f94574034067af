#pragma once

#include <cstddef>
#include <string>

namespace turnbench {

/// Colour and shape of the marks of a series.
struct SeriesMark {
  std::size_t color = 0;  ///< class s0 to s5
  std::size_t shape = 0;  ///< circle, square, diamond
  bool is_hollow = false;
};

/// Marks in which neighbouring series differ in both colour and shape: 6 of them.
SeriesMark dot_mark(std::size_t series);
/// As many different marks as there are colours, shapes and fillings: 36.
SeriesMark line_mark(std::size_t series);

/// "s3" or "s3 hollow".
std::string mark_class(const SeriesMark& mark);

/// The mark at a horizontal place such as "12.5%"; its colour is the text colour of its class.
std::string mark_svg(const SeriesMark& mark, const std::string& x, double y);

}  // namespace turnbench
