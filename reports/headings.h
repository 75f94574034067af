#pragma once

#include <string>
#include <vector>

namespace turnbench {

/// What stands over a column of a dimension's values: the name of a setting without what stands
/// before it in manifests ("eta" for "method.eta"), else the dimension's name.
std::string dimension_heading(const std::string& dimension);

/// What stands over a column that is one value of each of these dimensions: the values, turns and
/// settings with their names ("begin / turn 2", "budget 256", "no budget").
std::string value_heading(const std::vector<std::string>& dimensions,
                          const std::vector<std::string>& values);

}  // namespace turnbench
