#pragma once

#include <string>

namespace turnbench::test {

/// SQL: triggers of one connection, by which UPDATE, DELETE and INSERT on the views of a store
/// change the tables behind them.
std::string writable_views_sql();

}  // namespace turnbench::test
