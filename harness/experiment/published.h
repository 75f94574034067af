#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// A number that a paper prints, and the cells that it belongs to.
struct PublishedNumber {
  /// Dimension -> the values that it may have; those left empty are not there.
  std::map<std::string, std::vector<std::string>> dimensions;
  std::vector<std::string> averaged;  ///< dimensions over all values of which it is a mean
  double value = 0;
  std::string note;      ///< what is remarked beside it, or empty
  std::size_t line = 0;  ///< in its file, from 1

  /// Whether a cell, given as the value of each dimension, agrees in all that is named.
  bool agrees(const std::function<std::string(const std::string&)>& dimension) const;
};

/// Reads a CSV with a header: columns are dimensions of a table, `value`, and optionally `note`.
/// "a | b" stands for either value, "mean" for the mean over all of them.  Fields with commas stand
/// in double quotes; lines that begin with # are comments; a byte order mark in front is skipped.
std::vector<PublishedNumber> parse_published(std::string_view csv, const std::string& source);

/// The text of the CSV that a manifest names, "" if it names none; refuses one that cannot be read,
/// that has no numbers, or two for the same values of the same dimensions.
std::string read_published(const Manifest& manifest);

}  // namespace turnbench
