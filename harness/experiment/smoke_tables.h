#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/json.h"
#include "harness/experiment/manifest.h"

namespace turnbench {

/// The labels of the methods that tables name: those of each entry of `methods` (of a name without
/// settings, its first method), and the baselines of all differences.
std::vector<std::string> methods_of_tables(const Manifest& manifest);

/// A table whose methods are named by their labels, because their settings change.  `kept`: the
/// labels of the methods that run.
OrderedJson smoke_table(OrderedJson table, const TableSpec& spec, const Manifest& manifest,
                        const std::set<std::string>& kept);

}  // namespace turnbench
