#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// A number that a paper prints, and the dimensions of the cells that it belongs to.
struct PublishedNumber {
  std::map<std::string, std::string> dimensions;  ///< name -> value; those left empty are not there
  double value = 0;
};

/// Reads a CSV with a header: columns are dimensions of a table, `value`, and optionally `note`.
/// Fields with commas stand in double quotes; lines that begin with # are comments.
std::vector<PublishedNumber> parse_published(std::string_view csv, const std::string& source);

}  // namespace turnbench
