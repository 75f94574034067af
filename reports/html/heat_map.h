#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"

namespace turnbench {

/// Heat maps of a table that varies one number in its rows and another one in its columns, each
/// with at least three values, such as the depth of a needle and the length of a context: one for
/// each combination of the other row dimensions.  Empty for other tables.  Colours are from 0 to
/// 100 for shares, else from the lowest to the highest mean.
std::vector<std::string> heat_maps_html(const Pivot& pivot);

}  // namespace turnbench
