#include "harness/store/schema.h"

#include "common/error.h"
#include "common/text.h"
#include "harness/store/dialogue_hashes.h"
#include "harness/store/migration.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema_tables.h"

namespace turnbench {
namespace {

constexpr int kSchemaVersion = 6;
constexpr int kOldestSchema = 1;
constexpr int kApplicationId = 0x7475726E;  // "turn": distinguishes a store from other SQLite files

// Additions of version 2.
constexpr const char* kJudgementSchema = R"(
CREATE TABLE judge (
  id TEXT PRIMARY KEY, rubric TEXT NOT NULL, rubric_hash TEXT NOT NULL, rubric_text TEXT NOT NULL,
  model TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE judgement (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL,
  judge TEXT NOT NULL REFERENCES judge, ordinal INTEGER NOT NULL, url TEXT NOT NULL,
  status TEXT NOT NULL, error TEXT NOT NULL, reply TEXT NOT NULL, scores TEXT NOT NULL,
  PRIMARY KEY (cell, dialogue, turn, judge, ordinal),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
)";

// Additions of version 3.  Sources are hashes of the part of the program that last wrote the row.
constexpr const char* kSourcesSchema = R"(
ALTER TABLE dataset ADD COLUMN sources TEXT NOT NULL DEFAULT '';
ALTER TABLE score ADD COLUMN sources TEXT NOT NULL DEFAULT '';
)";

// Additions of version 4.
constexpr const char* kLedgerSchema = R"(
CREATE TABLE ledger (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (cell, dialogue, turn),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
)";

// Additions of version 6, also to stores that get the tables of version 5 now.
void add_dialogue_hashes(Database& db) {
  Statement column = db.prepare("SELECT 1 FROM pragma_table_info('dialogue') WHERE name = 'texts'");
  const bool exists = column.next();
  column.reset();
  if (!exists) {
    for (const char* name : {"content", "texts"})
      db.execute(fmt::format("ALTER TABLE dialogue ADD COLUMN {} TEXT NOT NULL DEFAULT ''", name));
  }
  Statement read = db.prepare("SELECT json, dataset, id FROM dialogue");
  Statement write =
      db.prepare("UPDATE dialogue SET content = ?, texts = ? WHERE dataset = ? AND id = ?");
  while (read.next()) {
    DialogueHashes hashes;
    try {
      hashes = hashes_of(unpacked_text(read, 0));
    } catch (const Error&) {  // damaged; `turnbench doctor` finds it
    }
    (write << hashes.content << hashes.texts << read.view(1) << read.view(2)).run();
  }
}

std::int64_t pragma(const Database& db, const std::string& name) {
  Statement s = db.prepare("PRAGMA " + name);
  return s.next() ? s.integer(0) : 0;
}

}  // namespace

bool is_new(const Database& db) {
  Statement tables = db.prepare("SELECT count(*) FROM sqlite_master");
  return tables.next() && tables.integer(0) == 0 && pragma(db, "application_id") == 0 &&
         pragma(db, "user_version") == 0;
}

void check_schema(const Database& db) {
  if (pragma(db, "application_id") != kApplicationId) {
    throw input_error("{}: found an SQLite file of another program, expected a turnbench store",
                      db.path());
  }
  const std::int64_t version = pragma(db, "user_version");
  if (version < kOldestSchema || version > kSchemaVersion) {
    throw input_error("{}: found schema version {}, expected {} to {}: made by {} turnbench",
                      db.path(), version, kOldestSchema, kSchemaVersion,
                      version > kSchemaVersion ? "a newer" : "an older");
  }
}

bool has_judgements(const Database& db) {
  return pragma(db, "user_version") >= 2;
}

bool has_sources(const Database& db) {
  return pragma(db, "user_version") >= 3;
}

bool has_ledgers(const Database& db) {
  return pragma(db, "user_version") >= 4;
}

bool has_compact_tables(const Database& db) {
  return pragma(db, "user_version") >= 5;
}

bool has_dialogue_hashes(const Database& db) {
  return pragma(db, "user_version") >= 6;
}

std::string cell_rows_sql(const Database& db, std::string_view table, std::string_view columns,
                          std::string_view where) {
  if (!has_compact_tables(db)) {
    return fmt::format(
        "SELECT x.dialogue, x.turn, {1} FROM {0} x WHERE x.cell = ?1 AND {2} ORDER BY x.dialogue, "
        "x.turn",
        table, columns, where);
  }
  // As in the views, but in an order that SQLite knows.
  const std::string_view id = table == "record" ? "id" : "record";
  return fmt::format(
      "SELECT d.id AS dialogue, x.{3} & {4} AS turn, {1} FROM cell c CROSS JOIN dialogue d ON "
      "d.dataset = c.dataset "
      "CROSS JOIN {0}_data x ON x.{3} BETWEEN (c.id << {5}) + (d.number << {6}) AND "
      "(c.id << {5}) + (d.number << {6}) + {4} WHERE c.key = ?1 AND {2} ORDER BY d.id, x.{3}",
      table, columns, where, id, kMostTurns - 1, kDialogueBits + kTurnBits, kTurnBits);
}

std::vector<std::string> cell_keys(const Database& db, const std::string& experiment) {
  std::vector<std::string> out;
  Statement s = db.prepare(fmt::format("SELECT cell FROM {} ORDER BY ordinal", kCellsSql));
  s << experiment;
  while (s.next()) out.push_back(s.text(0));
  return out;
}

std::string name_sql(const Database& db, std::string_view text) {
  return has_compact_tables(db) ? fmt::format("(SELECT n.id FROM name n WHERE n.name = {})", text)
                                : std::string(text);
}

std::string source_sql(const Database& db, std::string_view hash) {
  return has_compact_tables(db) ? fmt::format("(SELECT n.id FROM source n WHERE n.hash = {})", hash)
                                : std::string(hash);
}

std::string units_sql(const Database& db) {
  if (!has_compact_tables(db))
    return "SELECT DISTINCT cell, dialogue FROM record ORDER BY cell, dialogue";
  return fmt::format(
      "SELECT c.key, d.id FROM cell c CROSS JOIN dialogue d ON d.dataset = c.dataset WHERE EXISTS "
      "(SELECT 1 FROM record_data x WHERE x.id BETWEEN (c.id << {1}) + (d.number << {2}) AND "
      "(c.id << {1}) + (d.number << {2}) + {0}) ORDER BY c.id, d.id",
      kMostTurns - 1, kDialogueBits + kTurnBits, kTurnBits);
}

void migrate(Database& db) {
  if (is_new(db)) {  // another process may have created it meanwhile
    db.execute(std::string(kUnchangedTablesSql));
    db.execute(std::string(kChangedTablesSql));
    db.execute(views_sql() + triggers_sql());
  } else {
    check_schema(db);
    if (!has_judgements(db)) db.execute(kJudgementSchema);
    if (!has_sources(db)) db.execute(kSourcesSchema);
    if (!has_ledgers(db)) db.execute(kLedgerSchema);
    if (!has_compact_tables(db)) {
      try {
        migrate_to_compact_tables(db);
      } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("{}; the store cannot be upgraded (see turnbench "
                                              "doctor {})",
                                              error.what(), db.path()));
      }
    }
    if (!has_dialogue_hashes(db)) add_dialogue_hashes(db);
  }
  db.execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId,
                         kSchemaVersion));
}

void prepare_schema(Database& db) {
  if (!is_new(db)) check_schema(db);
  db.prepare_for_writing();
  if (pragma(db, "user_version") == kSchemaVersion) return;
  Transaction transaction(db);
  migrate(db);
  transaction.commit();
}

}  // namespace turnbench
