#pragma once

#include <map>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// The names of an experiment's cells in tables, by key: "tiny, tiny-fact, end, snapkv:budget=64".
std::map<std::string, std::string> cell_names(const Store& store, const std::string& experiment);

}  // namespace turnbench
