#pragma once

#include <string>

#include "reports/pivot.h"

namespace turnbench {

/// Whether a table varies one number in its rows and another in its columns, each with at least
/// three values, such as the length of a context and the depth of a needle.
bool is_grid(const Pivot& pivot);

/// Such a table as a heat map: its means on a scale of colours, from 0 to 100 for shares, else from
/// the lowest to the highest mean.
std::string heat_map_html(const Pivot& pivot);

}  // namespace turnbench
