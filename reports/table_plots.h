#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/pivot.h"
#include "reports/plot.h"

namespace turnbench {

/// The number of different numbers from which a dimension is drawn as an axis.
constexpr std::size_t kFewestNumbers = 3;

/// The number of different numbers ("256", "0.2", "1/10") among the values of a dimension, at
/// `index` in the rows or columns of a table; 0 if it is neither a setting nor the turn.
std::size_t count_numbers(const std::string& dimension,
                          const std::vector<std::vector<std::string>>& values, std::size_t index);

/// Plots of a table in which a number varies: a setting of methods, or the turn.  The dimension
/// with the most numbers, if there are enough, becomes the x axis.  The other dimensions of rows
/// are the lines.  The other dimensions of columns make one plot each; without such dimensions of
/// rows, they are the lines.  An entry whose setting is no number, such as that of `full`, becomes
/// a level line.  Empty if the table has no such dimension.
std::vector<Plot> table_plots(const Pivot& pivot);

}  // namespace turnbench
