#pragma once

#include <string>

#include "reports/diff/run_diff.h"

namespace turnbench {

/// The first field in which the protocols differ, or with `all_fields` every such field, and a
/// table of the cells that differ.
std::string render_diff_markdown(const RunDiff& diff, bool all_fields);

/// All fields and all pairs of cells.
std::string render_diff_json(const RunDiff& diff);

}  // namespace turnbench
