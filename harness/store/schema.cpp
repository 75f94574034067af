#include "harness/store/schema.h"

#include "common/error.h"

namespace turnbench {
namespace {

constexpr int kSchemaVersion = 4;
constexpr int kOldestSchema = 1;            // lacks the later additions below
constexpr int kApplicationId = 0x7475726E;  // "turn": distinguishes a store from other SQLite files

constexpr const char* kSchema = R"(
CREATE TABLE environment (id TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE protocol (id TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE model (hash TEXT PRIMARY KEY, description TEXT NOT NULL);
CREATE TABLE dataset (hash TEXT PRIMARY KEY, description TEXT NOT NULL);
CREATE TABLE dialogue (
  dataset TEXT NOT NULL REFERENCES dataset, id TEXT NOT NULL, turns INTEGER NOT NULL,
  json TEXT NOT NULL, PRIMARY KEY (dataset, id)) WITHOUT ROWID;
CREATE TABLE method (canonical TEXT PRIMARY KEY);
CREATE TABLE experiment (
  name TEXT NOT NULL, manifest_hash TEXT NOT NULL, title TEXT NOT NULL, manifest TEXT NOT NULL,
  directory TEXT NOT NULL, published TEXT NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY (name, manifest_hash)) WITHOUT ROWID;
CREATE TABLE cell (
  key TEXT PRIMARY KEY, model TEXT NOT NULL REFERENCES model, dataset TEXT NOT NULL REFERENCES dataset,
  task TEXT NOT NULL, position TEXT NOT NULL, method TEXT NOT NULL REFERENCES method,
  history TEXT NOT NULL, answers TEXT NOT NULL, metric TEXT NOT NULL, postprocess TEXT NOT NULL,
  protocol TEXT NOT NULL REFERENCES protocol);
CREATE TABLE experiment_cell (
  experiment TEXT NOT NULL, manifest_hash TEXT NOT NULL, ordinal INTEGER NOT NULL,
  cell TEXT NOT NULL REFERENCES cell, model TEXT NOT NULL, dataset TEXT NOT NULL, method TEXT NOT NULL,
  PRIMARY KEY (experiment, manifest_hash, ordinal),
  FOREIGN KEY (experiment, manifest_hash) REFERENCES experiment) WITHOUT ROWID;
CREATE TABLE record (
  cell TEXT NOT NULL REFERENCES cell, dialogue TEXT NOT NULL, turn INTEGER NOT NULL,
  status TEXT NOT NULL, error TEXT NOT NULL, prompt_hash TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  truncated_tokens INTEGER NOT NULL, answer TEXT NOT NULL, answer_tokens TEXT NOT NULL,
  stopped INTEGER NOT NULL, environment TEXT NOT NULL REFERENCES environment,
  PRIMARY KEY (cell, dialogue, turn)) WITHOUT ROWID;
CREATE TABLE score (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL, metric TEXT NOT NULL,
  postprocess TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (cell, dialogue, turn, metric, postprocess),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE counter (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL, name TEXT NOT NULL,
  value REAL NOT NULL, PRIMARY KEY (cell, dialogue, turn, name),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE timing (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL, name TEXT NOT NULL,
  value REAL NOT NULL, PRIMARY KEY (cell, dialogue, turn, name),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
)";

// Since version 2.
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

// Since version 3.  Sources are hashes of the part of the program that last wrote the row.
constexpr const char* kSourcesSchema = R"(
ALTER TABLE dataset ADD COLUMN sources TEXT NOT NULL DEFAULT '';
ALTER TABLE score ADD COLUMN sources TEXT NOT NULL DEFAULT '';
)";

// Since version 4.
constexpr const char* kLedgerSchema = R"(
CREATE TABLE ledger (
  cell TEXT NOT NULL, dialogue TEXT NOT NULL, turn INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (cell, dialogue, turn),
  FOREIGN KEY (cell, dialogue, turn) REFERENCES record ON DELETE CASCADE) WITHOUT ROWID;
)";

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

void migrate(Database& db) {
  if (is_new(db)) {  // another process may have created it meanwhile
    db.execute(kSchema);
  } else {
    check_schema(db);
  }
  if (!has_judgements(db)) db.execute(kJudgementSchema);
  if (!has_sources(db)) db.execute(kSourcesSchema);
  if (!has_ledgers(db)) db.execute(kLedgerSchema);
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
