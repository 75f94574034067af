#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "harness/store/sqlite.h"
#include "harness/store/store.h"

namespace turnbench {

/// @throws Error (input) if the file is not a store, or if its schema is unknown to this program.
void check_schema(const Database& db);

/// True if the file has no schema yet.
bool is_new(const Database& db);

/// Creates the schema in a new file, or migrates an older store.  Throws as `check_schema`.
void prepare_schema(Database& db);

/// As `prepare_schema`, within a transaction of the caller, after `Database::prepare_for_writing`.
void migrate(Database& db);

/// True if the store has the tables of judgements.  Older stores opened read-only may lack them.
bool has_judgements(const Database& db);

/// True if the store records the sources of its rows.  Older stores opened read-only may not.
bool has_sources(const Database& db);

/// True if the store has ledgers of transfers.  Older stores opened read-only may lack them.
bool has_ledgers(const Database& db);

/// True if the large tables have integer keys, behind views with the names of the older tables.
/// Older stores opened read-only have the tables themselves.
bool has_compact_tables(const Database& db);

/// True if dialogues have hashes (dialogue_hashes.h).  Older stores opened read-only lack them.
bool has_dialogue_hashes(const Database& db);

/// SQL: the hash of the latest manifest of experiment ?1.
constexpr std::string_view kLatestManifestSql =
    "(SELECT manifest_hash FROM experiment WHERE name = ?1 ORDER BY ordinal DESC LIMIT 1)";

/// SQL: the cells of that manifest, each once.  (A cell may occur several times in the tables, if
/// two labels have the same content.)
inline const std::string kCellsSql = fmt::format(
    "(SELECT cell, min(ordinal) AS ordinal FROM experiment_cell "
    "WHERE experiment = ?1 AND manifest_hash = {} GROUP BY cell)",
    kLatestManifestSql);

/// SQL: selects `columns` of the rows x of a cell, after the dialogue and the turn, in the order of
/// both.  The first parameter is the cell's key.  table: record, score, counter or timing.
std::string cell_rows_sql(const Database& db, std::string_view table, std::string_view columns,
                          std::string_view where = "true");

/// The keys of the cells of an experiment's latest manifest, in table order, each once.
std::vector<std::string> cell_keys(const Database& db, const std::string& experiment);

/// SQL: what a column of names (of counters, timings, metrics or post-processings) in a row x of
/// `cell_rows_sql` has for a text, which is an SQL expression.
std::string name_sql(const Database& db, std::string_view text);
/// As `name_sql`, for a column of sources.
std::string source_sql(const Database& db, std::string_view hash);

/// SQL: selects the keys of cells and the dialogues of all units, in the order of cells and
/// dialogues.
std::string units_sql(const Database& db);

/// SQL: the columns that `read_cell` reads, of cell c and protocol p.
constexpr std::string_view kCellColumnsSql =
    "c.key, c.task, c.position, c.history, c.answers, c.metric, c.postprocess, c.model, c.dataset, "
    "c.method, c.protocol, p.json";
/// Reads the cell from a row whose columns from `first` on are kCellColumnsSql.  The labels of an
/// experiment are not set.
Cell read_cell(const Statement& row, int first);

}  // namespace turnbench
