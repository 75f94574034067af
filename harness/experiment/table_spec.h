#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/experiment/baseline_rule.h"
#include "harness/experiment/table_values.h"

namespace turnbench {

/// A table to print: means for `rows` x `columns`.
struct TableSpec {
  std::string title = {};
  /// Each one of table_values(), or a metric.  If there are several, kValueDimension is among the
  /// rows or columns.
  std::vector<std::string> values = {"score"};
  std::vector<std::string> rows = {}, columns = {};  ///< see table_dimensions()
  /// The methods to show, as `MethodFilter` reads them; empty: all.
  std::vector<std::string> methods = {};
  /// The methods or probes to which the table also shows paired differences.
  std::vector<BaselineRule> difference_to = {};
};

/// The dimensions for rows and columns of a table: model, dataset, task, position, method, ... Also
/// method.PARAMETER, a setting of the method, and method.name, its name without settings.
const std::vector<std::string_view>& table_dimensions();
constexpr std::string_view kSettingPrefix = "method.";
/// `length` and `depth` of a dataset's entry in the manifest.
constexpr std::string_view kLengthDimension = "dataset.length", kDepthDimension = "dataset.depth";
/// The method's label without its budget (`variant_of`).
constexpr std::string_view kVariantDimension = "method.variant";
/// The quantity, in tables of several.
constexpr std::string_view kValueDimension = "value";

}  // namespace turnbench
