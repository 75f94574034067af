#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// A number printed in a paper, and the cells to which it belongs.
struct PublishedNumber {
  /// Dimension -> accepted values.  Dimensions that the row leaves empty are missing.
  std::map<std::string, std::vector<std::string>> dimensions;
  std::vector<std::string> averaged_over;  ///< dimensions over whose values the number is a mean
  double value = 0;
  std::string note;      ///< a remark, or empty
  std::size_t line = 0;  ///< line in the file, from 1

  /// True if a cell has an accepted value in each of `dimensions`.  `dimension` returns the cell's
  /// value of a dimension.
  bool matches(const std::function<std::string(const std::string&)>& dimension) const;
};

/// Parses a CSV with a header.  The columns are dimensions of a table, `value`, and optionally
/// `note`.  "a | b" means either value, "mean" the mean over all values.  Fields with commas are in
/// double quotes.  Lines that begin with # are comments.  A leading byte order mark is skipped.
/// @throws Error (input), with the line, for anything else.
std::vector<PublishedNumber> parse_published(std::string_view csv, const std::string& source);

/// The text of the CSV that a manifest names; "" if it names none.
/// @throws Error (input) if it cannot be read or parsed, has no numbers, or has two numbers for the
/// same values of the same dimensions.
std::string read_published(const Manifest& manifest);

}  // namespace turnbench
