#include "tests/harness/store/old_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "common/text.h"
#include "harness/store/packed_text.h"
#include "harness/store/sqlite.h"

namespace turnbench::test {
namespace {

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

/// Copies a table of which texts may be compressed.
void copy_texts(const Database& from, const Database& to, const std::string& table,
                const std::vector<std::string>& columns) {
  const std::string names = join(columns, ", ");
  Statement read = from.prepare(fmt::format("SELECT {} FROM {}", names, table));
  Statement write =
      to.prepare(fmt::format("INSERT INTO {} ({}) VALUES ({})", table, names,
                             join(std::vector<std::string>(columns.size(), "?"), ", ")));
  while (read.next()) {
    for (std::size_t c = 0; c < columns.size(); ++c)
      write << unpacked_text(read, static_cast<int>(c));
    write.run();
  }
}

/// Copies a table by SQL, which keeps every bit of a number.
void copy_rows(Database& to, const std::string& table, const std::string& columns) {
  to.execute(fmt::format("INSERT INTO main.{0} ({1}) SELECT {1} FROM current.{0}", table, columns));
}

}  // namespace

void make_older(const std::string& path, int version) {
  if (version == 5) {
    Database(path, Database::Mode::kReadWrite)
        .execute(
            "ALTER TABLE dialogue DROP COLUMN content; ALTER TABLE dialogue DROP COLUMN texts; "
            "PRAGMA user_version=5");
    return;
  }
  const std::string older = path + ".older";
  {
    Database to(older, Database::Mode::kCreate);
    to.execute(kSchema);
    if (version >= 2) to.execute(kJudgementSchema);
    if (version >= 3) to.execute(kSourcesSchema);
    if (version >= 4) to.execute(kLedgerSchema);
    const Database from(path, Database::Mode::kReadWrite);
    to.execute(fmt::format("ATTACH '{}' AS current; BEGIN", path));
    copy_rows(to, "environment", "id, json");
    copy_rows(to, "protocol", "id, json");
    copy_rows(to, "model", "hash, description");
    copy_rows(to, "dataset", version >= 3 ? "hash, description, sources" : "hash, description");
    copy_texts(from, to, "dialogue", {"dataset", "id", "turns", "json"});
    copy_rows(to, "method", "canonical");
    copy_rows(to, "experiment",
              "name, manifest_hash, title, manifest, directory, published, ordinal");
    copy_rows(to, "cell",
              "key, model, dataset, task, position, method, history, answers, metric, postprocess, "
              "protocol");
    copy_rows(to, "experiment_cell",
              "experiment, manifest_hash, ordinal, cell, model, dataset, method");
    copy_texts(from, to, "record",
               {"cell", "dialogue", "turn", "status", "error", "prompt_hash", "prompt_tokens",
                "truncated_tokens", "answer", "answer_tokens", "stopped", "environment"});
    copy_rows(to, "score",
              version >= 3 ? "cell, dialogue, turn, metric, postprocess, value, sources"
                           : "cell, dialogue, turn, metric, postprocess, value");
    copy_rows(to, "counter", "cell, dialogue, turn, name, value");
    copy_rows(to, "timing", "cell, dialogue, turn, name, value");
    if (version >= 2) {
      copy_rows(to, "judge", "id, rubric, rubric_hash, rubric_text, model");
      copy_texts(from, to, "judgement",
                 {"cell", "dialogue", "turn", "judge", "ordinal", "url", "status", "error", "reply",
                  "scores"});
    }
    if (version >= 4) copy_rows(to, "ledger", "cell, dialogue, turn, data");
    to.execute(fmt::format(
        "COMMIT; DETACH current; PRAGMA application_id={}; PRAGMA user_version={}; PRAGMA "
        "journal_mode=WAL",
        0x7475726E, version));
  }
  std::filesystem::rename(older, path);
}

}  // namespace turnbench::test
