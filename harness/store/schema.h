#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "harness/store/sqlite.h"
#include "harness/store/store.h"

namespace turnbench {

/// Refuses a file that is not a store, or one of a schema that this program does not know.
void check_schema(const Database& db);

/// Makes a new file a store and brings an older store up to date; refuses as `check_schema` does.
void prepare_schema(Database& db);

/// Whether the store has the tables of judgements: older ones may be read without them.
bool has_judgements(const Database& db);

/// Whether its rows say which sources made them: older stores may be read without.
bool has_sources(const Database& db);

/// SQL: the version of the manifest of experiment ?1 that was planned last.
constexpr std::string_view kLatest =
    "(SELECT manifest_hash FROM experiment WHERE name = ?1 ORDER BY ordinal DESC LIMIT 1)";

/// SQL: its cells, each once: a cell may have several places in the tables, as two labels of one
/// content.
inline const std::string kCells = fmt::format(
    "(SELECT cell, min(ordinal) AS ordinal FROM experiment_cell "
    "WHERE experiment = ?1 AND manifest_hash = {} GROUP BY cell)",
    kLatest);

/// SQL: what the store holds of cell c under protocol p, for `read_cell`.
constexpr std::string_view kCellColumns =
    "c.key, c.task, c.position, c.history, c.answers, c.metric, c.postprocess, c.model, c.dataset, "
    "c.method, c.protocol, p.json";
/// A cell of a row that has these columns from `first` on; without an experiment's names for it.
Cell read_cell(const Statement& row, int first);

}  // namespace turnbench
