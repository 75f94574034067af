#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "harness/store/sqlite.h"
#include "harness/store/store.h"

namespace turnbench {

/// @throws Error (input) if the file is not a store, or if its schema is unknown to this program.
void check_schema(const Database& db);

/// True if nobody has written to the file yet.
bool is_new(const Database& db);

/// Creates the schema in a new file, and migrates an older store.  Throws as `check_schema`.
void prepare_schema(Database& db);

/// True if the store has the tables of judgements.  Older stores, opened to read, may lack them.
bool has_judgements(const Database& db);

/// True if the store says which sources made its rows.  Older stores, opened to read, may not.
bool has_sources(const Database& db);

/// True if the store has ledgers of what moved.  Older stores, opened to read, may lack them.
bool has_ledgers(const Database& db);

/// SQL: the hash of the latest manifest of experiment ?1.
constexpr std::string_view kLatestManifestSql =
    "(SELECT manifest_hash FROM experiment WHERE name = ?1 ORDER BY ordinal DESC LIMIT 1)";

/// SQL: the cells of that manifest, each once.  (A cell may occur several times in the tables, if
/// two labels have the same content.)
inline const std::string kCellsSql = fmt::format(
    "(SELECT cell, min(ordinal) AS ordinal FROM experiment_cell "
    "WHERE experiment = ?1 AND manifest_hash = {} GROUP BY cell)",
    kLatestManifestSql);

/// SQL: the columns that `read_cell` reads, of cell c and protocol p.
constexpr std::string_view kCellColumnsSql =
    "c.key, c.task, c.position, c.history, c.answers, c.metric, c.postprocess, c.model, c.dataset, "
    "c.method, c.protocol, p.json";
/// The cell in a row whose columns from `first` on are kCellColumnsSql.  Without the labels of an
/// experiment.
Cell read_cell(const Statement& row, int first);

}  // namespace turnbench
