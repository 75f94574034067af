#pragma once

#include <string>
#include <vector>

#include "harness/experiment/table_values.h"

namespace turnbench {

/// Heading of a column with a dimension's values: the name of a setting without its prefix in
/// manifests ("eta" for "method.eta"), else the dimension's name.
std::string dimension_heading(const std::string& dimension);

/// Heading of a column for one value of each dimension: the values; turns and settings with their
/// names ("begin / turn 2", "budget 256", "no budget").
std::string value_heading(const std::vector<std::string>& dimensions,
                          const std::vector<std::string>& values);

/// "mean score (x100)".
std::string mean_heading(const TableValue& unit);

}  // namespace turnbench
