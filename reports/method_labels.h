#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/store/cell.h"
#include "harness/store/method_filter.h"

namespace turnbench {

/// The labels of a table's methods, shortened to the settings that differ within the table.
///
/// A setting is left out if all methods with the same part have it in common, alone or composed and
/// with defaults included, and no method of the table is written with another value of this
/// parameter.  Labels of one name stay as they are if
/// they would no longer be distinct.  So do labels that a manifest gives explicitly, probes and
/// imported predictions.
class MethodLabels {
 public:
  MethodLabels() = default;
  /// `methods`: a cell of each method of the table.  `given`: the labels that the manifest gives.
  MethodLabels(const std::vector<Cell>& methods, const std::set<std::string>& given);

  /// The short label of a method, by its label.
  const std::string& of(const std::string& label) const;
  /// The label whose short label is `text`; `text` itself if there is none.
  const std::string& whole(const std::string& text) const;
  /// The settings that labels leave out: "budget=64 of snapkv, h2o; sinks=4 of oracle", or "".
  const std::string& left_out() const { return left_out_; }

 private:
  std::map<std::string, std::string> short_;
  std::string left_out_;
};

/// Reads the method that a user names, to select from `cells`: as MethodFilter does, and if that
/// selects nothing, as a short label of a table of these cells.
MethodFilter named_method(const std::string& text, const std::vector<Cell>& cells);

}  // namespace turnbench
