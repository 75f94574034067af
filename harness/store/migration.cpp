#include "harness/store/migration.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema_tables.h"

namespace turnbench {
namespace {

constexpr const char* kChanged[] = {"environment", "dialogue", "cell",    "experiment_cell",
                                    "record",      "score",    "counter", "timing",
                                    "ledger",      "judgement"};

std::int64_t number(const Database& db, const std::string& sql) {
  Statement s = db.prepare(sql);
  return s.next() ? s.integer(0) : 0;
}

/// Records of dialogues that the store does not list keep their results: the dialogues are added
/// without their text.
void add_missing_dialogues(Database& db) {
  db.execute(
      "INSERT INTO old_dialogue SELECT c.dataset, r.dialogue, max(r.turn) + 1, '' FROM old_record "
      "r "
      "JOIN old_cell c ON c.key = r.cell LEFT JOIN old_dialogue d ON d.dataset = c.dataset AND "
      "d.id = r.dialogue WHERE d.id IS NULL GROUP BY 1, 2");
}

void check_turns(const Database& db) {
  Statement turns = db.prepare(
      "SELECT turn, dialogue FROM old_record WHERE typeof(turn) <> 'integer' OR turn NOT BETWEEN 0 "
      "AND ?");
  turns << kMostTurns - 1;
  if (!turns.next()) return;
  throw input_error("{}: found the turn {} of dialogue {}, expected 0 to {}", db.path(),
                    printable(turns.text(0)), printable(turns.text(1)), kMostTurns - 1);
}

void copy_dialogues(const Database& db) {
  Statement read = db.prepare(
      "SELECT dataset, id, turns, json, row_number() OVER (PARTITION BY dataset ORDER BY id) - 1 "
      "FROM old_dialogue");
  Statement write =
      db.prepare("INSERT INTO dialogue (dataset, id, turns, json, number) VALUES (?,?,?,?,?)");
  while (read.next()) {
    const std::int64_t place = read.integer(4);
    if (place >= kMostDialogues) {
      throw input_error("{}: found more than {} dialogues of a dataset, expected at most so many",
                        db.path(), kMostDialogues);
    }
    (write << read.view(0) << read.view(1) << read.integer(2) << PackedText(read.view(3)) << place)
        .run();
  }
}

void copy_records(const Database& db) {
  RecordKeys keys(db);
  Statement read = db.prepare(
      "SELECT cell, dialogue, turn, status, error, prompt_hash, prompt_tokens, truncated_tokens, "
      "answer, answer_tokens, stopped, environment FROM old_record ORDER BY cell, dialogue, turn");
  Statement write = db.prepare("INSERT INTO record_data VALUES (?,?,?,?,?,?,?,?,?,?)");
  while (read.next()) {
    (write << keys.record(read.text(0), read.text(1), read.integer(2)) << read.view(3)
           << PackedText(read.view(4)) << read.view(5) << read.integer(6) << read.integer(7)
           << PackedText(read.view(8)) << read.view(9) << read.integer(10)
           << keys.environment(read.text(11)))
        .run();
  }
}

void copy_judgements(const Database& db) {
  RecordKeys keys(db);
  Statement read = db.prepare(
      "SELECT cell, dialogue, turn, judge, ordinal, url, status, error, reply, scores "
      "FROM old_judgement");
  Statement write = db.prepare("INSERT INTO judgement_data VALUES (?,?,?,?,?,?,?,?)");
  while (read.next()) {
    (write << keys.record(read.text(0), read.text(1), read.integer(2)) << read.view(3)
           << read.integer(4) << read.view(5) << read.view(6) << read.view(7)
           << PackedText(read.view(8)) << read.view(9))
        .run();
  }
}

/// Copies a table that needs no other change than its keys.
void copy_values(Database& db, const char* table, const char* columns) {
  const std::string id =
      fmt::format("(c.id << {}) + (d.number << {}) + o.turn", kDialogueBits + kTurnBits, kTurnBits);
  db.execute(fmt::format(
      "INSERT INTO {0}_data SELECT {1}, {2} FROM cell c CROSS JOIN dialogue d ON d.dataset = "
      "c.dataset CROSS JOIN old_{0} o ON o.cell = c.key AND o.dialogue = d.id",
      table, id, columns));
}

/// Every row must have found its place.
void check_counts(const Database& db, const char* table) {
  const std::int64_t before = number(db, fmt::format("SELECT count(*) FROM old_{}", table)),
                     after = number(db, fmt::format("SELECT count(*) FROM {}_data", table));
  if (before == after) return;
  throw input_error("{}: found {} rows of the table {} that refer to missing rows, expected none",
                    db.path(), before - after, table);
}

}  // namespace

void migrate_to_compact_tables(Database& db) {
  for (const char* table : kChanged)
    db.execute(fmt::format("ALTER TABLE {0} RENAME TO old_{0}", table));
  check_turns(db);
  add_missing_dialogues(db);
  db.execute(std::string(kChangedTablesSql));
  db.execute(
      "INSERT INTO environment (id, json) SELECT id, json FROM old_environment ORDER BY rowid; "
      "INSERT INTO cell (key, model, dataset, task, position, method, history, answers, metric, "
      "postprocess, protocol) SELECT key, model, dataset, task, position, method, history, "
      "answers, "
      "metric, postprocess, protocol FROM old_cell ORDER BY rowid; "
      "INSERT INTO experiment_cell SELECT * FROM old_experiment_cell; "
      "INSERT OR IGNORE INTO name (name) SELECT name FROM old_counter; "
      "INSERT OR IGNORE INTO name (name) SELECT name FROM old_timing; "
      "INSERT OR IGNORE INTO name (name) SELECT metric FROM old_score; "
      "INSERT OR IGNORE INTO name (name) SELECT postprocess FROM old_score; "
      "INSERT OR IGNORE INTO source (hash) SELECT sources FROM old_score;");
  copy_dialogues(db);
  copy_records(db);
  const auto id_of = [](const char* column) {
    return fmt::format("(SELECT n.id FROM name n WHERE n.name = o.{})", column);
  };
  const std::string named = id_of("name") + ", o.value";
  copy_values(db, "score",
              fmt::format("{}, {}, o.value, (SELECT n.id FROM source n WHERE n.hash = o.sources)",
                          id_of("metric"), id_of("postprocess"))
                  .c_str());
  copy_values(db, "counter", named.c_str());
  copy_values(db, "timing", named.c_str());
  copy_values(db, "ledger", "o.data, ''");
  copy_judgements(db);
  for (const char* table : {"record", "score", "counter", "timing", "ledger", "judgement"})
    check_counts(db, table);
  for (const char* table : {"judgement", "ledger", "timing", "counter", "score", "record",
                            "experiment_cell", "cell", "dialogue", "environment"})
    db.execute(fmt::format("DROP TABLE old_{}", table));
  db.execute(views_sql() + triggers_sql());
}

}  // namespace turnbench
