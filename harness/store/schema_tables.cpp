#include "harness/store/schema_tables.h"

#include <fmt/format.h>

#include "harness/store/record_keys.h"

namespace turnbench {

const std::string_view kUnchangedTablesSql = R"(
CREATE TABLE protocol (id TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE model (hash TEXT PRIMARY KEY, description TEXT NOT NULL);
CREATE TABLE dataset (
  hash TEXT PRIMARY KEY, description TEXT NOT NULL, sources TEXT NOT NULL DEFAULT '');
CREATE TABLE method (canonical TEXT PRIMARY KEY);
CREATE TABLE experiment (
  name TEXT NOT NULL, manifest_hash TEXT NOT NULL, title TEXT NOT NULL, manifest TEXT NOT NULL,
  directory TEXT NOT NULL, published TEXT NOT NULL, ordinal INTEGER NOT NULL,
  PRIMARY KEY (name, manifest_hash)) WITHOUT ROWID;
CREATE TABLE judge (
  id TEXT PRIMARY KEY, rubric TEXT NOT NULL, rubric_hash TEXT NOT NULL, rubric_text TEXT NOT NULL,
  model TEXT NOT NULL) WITHOUT ROWID;
)";

// Texts that may be long are compressed blobs (packed_text.h): dialogue.json, record_data.answer
// and error, judgement_data.reply.  Names are those of counters, timings, metrics and
// post-processings; sources are hashes of those of the metrics.
const std::string_view kChangedTablesSql = R"(
CREATE TABLE environment (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, json TEXT NOT NULL);
CREATE TABLE dialogue (
  dataset TEXT NOT NULL REFERENCES dataset, id TEXT NOT NULL, turns INTEGER NOT NULL,
  json TEXT NOT NULL, number INTEGER NOT NULL,
  content TEXT NOT NULL DEFAULT '', texts TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (dataset, id), UNIQUE (dataset, number)) WITHOUT ROWID;
CREATE TABLE cell (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, model TEXT NOT NULL REFERENCES model,
  dataset TEXT NOT NULL REFERENCES dataset, task TEXT NOT NULL, position TEXT NOT NULL,
  method TEXT NOT NULL REFERENCES method, history TEXT NOT NULL, answers TEXT NOT NULL,
  metric TEXT NOT NULL, postprocess TEXT NOT NULL, protocol TEXT NOT NULL REFERENCES protocol);
CREATE TABLE experiment_cell (
  experiment TEXT NOT NULL, manifest_hash TEXT NOT NULL, ordinal INTEGER NOT NULL,
  cell TEXT NOT NULL REFERENCES cell (key), model TEXT NOT NULL, dataset TEXT NOT NULL,
  method TEXT NOT NULL, PRIMARY KEY (experiment, manifest_hash, ordinal),
  FOREIGN KEY (experiment, manifest_hash) REFERENCES experiment) WITHOUT ROWID;
CREATE TABLE name (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE source (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE);
CREATE TABLE record_data (
  id INTEGER PRIMARY KEY, status TEXT NOT NULL, error TEXT NOT NULL, prompt_hash TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, truncated_tokens INTEGER NOT NULL, answer TEXT NOT NULL,
  answer_tokens TEXT NOT NULL, stopped INTEGER NOT NULL,
  environment INTEGER NOT NULL REFERENCES environment);
CREATE INDEX failed_record ON record_data (status) WHERE status NOT IN ('ok', 'no_value');
CREATE TABLE cell_summary (
  cell INTEGER PRIMARY KEY REFERENCES cell ON DELETE CASCADE, json TEXT NOT NULL);
CREATE TABLE score_data (
  record INTEGER NOT NULL REFERENCES record_data ON DELETE CASCADE, metric INTEGER NOT NULL,
  postprocess INTEGER NOT NULL, value REAL NOT NULL, sources INTEGER NOT NULL,
  PRIMARY KEY (record, metric, postprocess)) WITHOUT ROWID;
CREATE TABLE counter_data (
  record INTEGER NOT NULL REFERENCES record_data ON DELETE CASCADE, name INTEGER NOT NULL,
  value REAL NOT NULL, PRIMARY KEY (record, name)) WITHOUT ROWID;
CREATE TABLE timing_data (
  record INTEGER NOT NULL REFERENCES record_data ON DELETE CASCADE, name INTEGER NOT NULL,
  value REAL NOT NULL, PRIMARY KEY (record, name)) WITHOUT ROWID;
CREATE TABLE ledger_data (
  record INTEGER PRIMARY KEY REFERENCES record_data ON DELETE CASCADE, data BLOB NOT NULL,
  dropped TEXT NOT NULL);
CREATE TABLE judgement_data (
  record INTEGER NOT NULL REFERENCES record_data ON DELETE CASCADE,
  judge TEXT NOT NULL REFERENCES judge, ordinal INTEGER NOT NULL, url TEXT NOT NULL,
  status TEXT NOT NULL, error TEXT NOT NULL, reply TEXT NOT NULL, scores TEXT NOT NULL,
  PRIMARY KEY (record, judge, ordinal)) WITHOUT ROWID;
)";

std::string triggers_sql() {
  std::string out;
  const auto trigger = [&](const char* event, const char* table, const char* row, const char* id) {
    out += fmt::format(
        "CREATE TRIGGER summary_{0}_{1}_{2} AFTER {0} ON {1} BEGIN DELETE FROM cell_summary WHERE "
        "cell = {2}.{3} >> {4}; END;\n",
        event, table, row, id, kDialogueBits + kTurnBits);
  };
  trigger("INSERT", "record_data", "new", "id");
  trigger("UPDATE", "record_data", "new", "id");
  trigger("UPDATE", "record_data", "old", "id");
  trigger("DELETE", "record_data", "old", "id");
  // Counters are added and deleted with their records.
  trigger("UPDATE", "counter_data", "new", "record");
  return out;
}

std::string views_sql() {
  // The order of the joins is that of the ids, and finds a unit's rows by their range.
  const auto view = [](const char* name, const char* id, const char* columns) {
    return fmt::format(
        "CREATE VIEW {0} AS SELECT c.key AS cell, d.id AS dialogue, x.{1} & {2} AS turn, {3} "
        "FROM cell c CROSS JOIN dialogue d ON d.dataset = c.dataset CROSS JOIN {0}_data x ON x.{1} "
        "BETWEEN (c.id << {4}) + (d.number << {5}) AND (c.id << {4}) + (d.number << {5}) + {2};\n",
        name, id, kMostTurns - 1, columns, kDialogueBits + kTurnBits, kTurnBits);
  };
  return view("record", "id",
              "x.status, x.error, x.prompt_hash, x.prompt_tokens, x.truncated_tokens, x.answer, "
              "x.answer_tokens, x.stopped, (SELECT e.id FROM environment e WHERE e.number = "
              "x.environment) AS environment") +
         view("score", "record",
              "(SELECT n.name FROM name n WHERE n.id = x.metric) AS metric, (SELECT n.name FROM "
              "name n WHERE n.id = x.postprocess) AS postprocess, x.value, (SELECT n.hash FROM "
              "source n WHERE n.id = x.sources) AS sources") +
         view("counter", "record",
              "(SELECT n.name FROM name n WHERE n.id = x.name) AS name, x.value") +
         view("timing", "record",
              "(SELECT n.name FROM name n WHERE n.id = x.name) AS name, x.value") +
         view("ledger", "record", "x.data, x.dropped") +
         view("judgement", "record",
              "x.judge, x.ordinal, x.url, x.status, x.error, x.reply, x.scores");
}

}  // namespace turnbench
