#pragma once

#include <string>
#include <vector>

#include "reports/pivot.h"
#include "reports/table_layout.h"

namespace turnbench {

/// Marks the best and the second best entry of each column.  An entry is compared with the next in
/// the order of the means: it is marked only if the 95% interval of their paired difference is
/// entirely on the better side.  Rows with different values of dimensions other than the method
/// (such as the model) are ranked separately.  Full attention and probes are not ranked.
void add_marks(const TableLayout& layout, Pivot& pivot);

/// Explains the marks: "Bold: ... Italic: ..."; "" if no entry of the tables is marked.
std::string marks_note(const std::vector<const Pivot*>& pivots, const std::string& best,
                       const std::string& second);

}  // namespace turnbench
