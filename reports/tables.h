#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"

namespace turnbench {

/// The tables of a report in a message: `1 "By position", 2 (method by turn)`.
std::string list_tables(const std::vector<TableSpec>& tables);

/// The index in `tables` of the table with this number, from 1, or this title.
/// @throws Error (input) if there is none, or several with this title; the message names --table.
std::size_t find_table(const std::vector<TableSpec>& tables, const std::string& text);

}  // namespace turnbench
