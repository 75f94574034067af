#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/store/cell.h"
#include "harness/store/cell_usage.h"

namespace turnbench {

/// Methods that had no effect in some cell: they kept, read and computed as much as full attention
/// in every record.  One line for all methods with the same counts: "snapkv:budget=4096 kept, read
/// and computed as much as full attention in all 24 records of tiny-fact: it was not active, its
/// budget was never reached (prompts of at most 812 tokens)".  Full attention itself, methods
/// that clamp distances, probes and imported answers are excluded.
std::vector<std::string> inactive_methods(const std::vector<Cell>& cells,
                                          const std::map<std::string, CellUsage>& by_cell);

}  // namespace turnbench
