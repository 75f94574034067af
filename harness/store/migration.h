#pragma once

#include "harness/store/sqlite.h"

namespace turnbench {

/// Converts a store of schema 4 to schema 5, within a transaction of the caller.
/// @throws Error if rows refer to missing rows, which the new schema cannot represent
void migrate_to_compact_tables(Database& db);

}  // namespace turnbench
