#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace turnbench {

/// Whether cells have different values of a label.
bool varies(const std::vector<Cell>& cells, std::string Cell::*label);

/// The names of an experiment's cells in tables, by key: "tiny, tiny-fact, end, snapkv:budget=64",
/// and the history and the kind of answers if they vary.
std::map<std::string, std::string> cell_names(const Store& store, const std::string& experiment);

}  // namespace turnbench
