#include "harness/store/integrity.h"

#include <functional>
#include <optional>

#include "common/error.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "harness/store/cell_summary.h"
#include "harness/store/merge_plans.h"
#include "harness/store/packed_ledger.h"
#include "harness/store/packed_text.h"
#include "harness/store/record_keys.h"
#include "harness/store/schema.h"

namespace turnbench {
namespace {

/// Collects the findings of one store.
class Checks {
 public:
  explicit Checks(const Database& db) : db_(db) {}

  /// The example for a row, or nothing if the row is fine.
  using Describe = std::function<std::optional<std::string>(const Statement&)>;
  /// Adds what `describe` finds in the rows of a query.
  void add(const char* kind, const char* what, const std::string& sql, const Describe& describe) {
    StoreCheck::Finding finding{kind, what, 0, ""};
    Statement rows = db_.prepare(sql);
    while (rows.next()) {
      const std::optional<std::string> example = describe(rows);
      if (!example) continue;
      if (finding.count++ == 0) finding.example = printable(*example);
    }
    if (finding.count > 0) findings_.push_back(std::move(finding));
  }
  void add(const char* kind, const char* what, std::string example) {
    if (any() && findings_.back().kind == kind) {
      ++findings_.back().count;
    } else {
      findings_.push_back({kind, what, 1, std::move(example)});
    }
  }

  bool any() const { return !findings_.empty(); }
  std::vector<StoreCheck::Finding> take() { return std::move(findings_); }

 private:
  const Database& db_;
  std::vector<StoreCheck::Finding> findings_;
};

std::optional<std::string> first_column(const Statement& row) {
  return row.text(0);
}

/// Tables, and the rows among them that nothing refers to.
struct Unused {
  const char *kind, *what, *sql;
};
constexpr Unused kUnused[] = {
    {"models", "models of no cell",
     "SELECT hash FROM model WHERE hash NOT IN (SELECT model FROM cell)"},
    {"datasets", "datasets of no cell",
     "SELECT hash FROM dataset WHERE hash NOT IN (SELECT dataset FROM cell)"},
    {"methods", "methods of no cell",
     "SELECT canonical FROM method WHERE canonical NOT IN (SELECT method FROM cell)"},
    {"protocols", "protocols of no cell",
     "SELECT id FROM protocol WHERE id NOT IN (SELECT protocol FROM cell)"},
};

/// The keys of the compact tables, which are no foreign keys.
void check_keys(const Database& db, Checks& checks) {
  checks.add(
      "records", "records of unknown cells, dialogues or turns",
      fmt::format("SELECT x.id, c.key, d.id, x.id & {0} FROM record_data x LEFT JOIN cell c "
                  "ON c.id = x.id >> {1} LEFT JOIN dialogue d ON d.dataset = c.dataset AND "
                  "d.number = (x.id >> {2}) & {3} WHERE d.id IS NULL OR x.id & {0} >= d.turns",
                  kMostTurns - 1, kDialogueBits + kTurnBits, kTurnBits, kMostDialogues - 1),
      [&](const Statement& row) {
        if (row.is_null(1)) return fmt::format("record {}", row.text(0));
        return fmt::format("{}: dialogue {}, turn {}", cell_label(db, row.text(1)),
                           row.is_null(2) ? "unknown" : row.text(2), row.integer(3) + 1);
      });
  struct Named {
    const char *table, *column, *names;
  };
  constexpr Named kNamed[] = {{"counter", "name", "name"},
                              {"timing", "name", "name"},
                              {"score", "metric", "name"},
                              {"score", "postprocess", "name"},
                              {"score", "sources", "source"}};
  for (const Named& named : kNamed) {
    checks.add("names", "values without a name",
               fmt::format("SELECT x.{1} FROM {0}_data x WHERE x.{1} NOT IN (SELECT id FROM {2})",
                           named.table, named.column, named.names),
               [&](const Statement& row) {
                 return fmt::format("a {} whose {} is number {}", named.table, named.column,
                                    row.text(0));
               });
  }
}

/// Compressed texts.
void check_texts(Checks& checks) {
  const auto readable = [](const Statement& row) -> std::optional<std::string> {
    try {
      unpacked_text(row, 0);
      return std::nullopt;
    } catch (const Error& error) {
      return error.what();
    }
  };
  for (const char* column : {"answer FROM record", "error FROM record", "reply FROM judgement"}) {
    checks.add("texts", "texts that cannot be read", fmt::format("SELECT {}_data", column),
               readable);
  }
}

void check_references(const Database& db, Checks& checks) {
  checks.add("references", "rows that refer to missing rows", "PRAGMA foreign_key_check",
             [](const Statement& row) {
               return fmt::format("a row of {} without its {}", row.text(0), row.text(2));
             });
  for (const Unused& unused : kUnused)
    checks.add(unused.kind, unused.what, unused.sql, first_column);
  if (has_compact_tables(db)) return check_keys(db, checks);
  checks.add("records", "records of unknown dialogues or turns",
             "SELECT r.cell, r.dialogue, r.turn FROM record r JOIN cell c ON c.key = r.cell "
             "LEFT JOIN dialogue d ON d.dataset = c.dataset AND d.id = r.dialogue "
             "WHERE d.id IS NULL OR typeof(r.turn) <> 'integer' OR r.turn < 0 OR r.turn >= d.turns",
             [&](const Statement& row) {
               return fmt::format("{}: dialogue {}, turn {}", cell_label(db, row.text(0)),
                                  row.text(1), row.text(2));
             });
}

void check_units(const Database& db, Checks& checks) {
  checks.add("units", "dialogues of which a cell has too few turns",
             "SELECT r.cell, r.dialogue, count(*), d.turns FROM record r JOIN cell c ON c.key = "
             "r.cell JOIN dialogue d ON d.dataset = c.dataset AND d.id = r.dialogue "
             "WHERE c.method NOT LIKE 'imported:%' "
             "GROUP BY r.cell, r.dialogue HAVING count(*) < d.turns",
             [&](const Statement& row) {
               return fmt::format("{}: dialogue {}: {} of {} turns", cell_label(db, row.text(0)),
                                  row.text(1), row.text(2), row.text(3));
             });
}

void check_contents(const Database& db, Checks& checks) {
  checks.add("dialogues", "dialogues that cannot be read", "SELECT id, turns, json FROM dialogue",
             [](const Statement& row) -> std::optional<std::string> {
               try {
                 const std::size_t turns =
                     parse_dialogue(unpacked_text(row, 2), "dialogue " + row.text(0)).turns.size();
                 if (static_cast<std::int64_t>(turns) == row.integer(1)) return std::nullopt;
                 return fmt::format("dialogue {}: found {} turns, expected {}", row.text(0), turns,
                                    row.text(1));
               } catch (const Error& error) {
                 return error.what();
               }
             });
  if (has_compact_tables(db)) {
    check_texts(checks);
    for (const std::string& cell : wrong_summaries(db))
      checks.add("summaries", "summaries of cells that do not fit their records",
                 cell_label(db, cell));
  }
  if (!has_ledgers(db)) return;
  checks.add("ledgers", "ledgers that cannot be read",
             "SELECT cell, dialogue, turn, data FROM ledger",
             [&](const Statement& row) -> std::optional<std::string> {
               try {
                 unpack_ledger(row.bytes(3),
                               fmt::format("{}: dialogue {}, turn {}", cell_label(db, row.text(0)),
                                           row.text(1), row.integer(2) + 1));
                 return std::nullopt;
               } catch (const Error& error) {
                 return error.what();
               }
             });
}

}  // namespace

StoreCheck check_store(const std::filesystem::path& path) {
  const Database db(path, Database::Mode::kReadOnly);
  StoreCheck out;
  Statement version = db.prepare("PRAGMA user_version");
  if (version.next()) out.schema_version = version.integer(0);
  Checks checks(db);
  constexpr const char *kIntegrity = "integrity", *kDefects = "defects of the database file";
  try {
    checks.add(kIntegrity, kDefects, "PRAGMA integrity_check",
               [](const Statement& row) -> std::optional<std::string> {
                 if (row.view(0) == "ok") return std::nullopt;
                 return row.text(0);
               });
  } catch (const Error& error) {  // a defect of the schema
    checks.add(kIntegrity, kDefects, error.what());
  }
  // Defects may make any other query fail.
  if (checks.any()) {
    out.findings = checks.take();
    return out;
  }
  if (is_new(db)) return out;
  try {
    check_schema(db);
  } catch (const Error& error) {
    checks.add("schema", "schema of another program or version", error.what());
    out.findings = checks.take();
    return out;
  }
  check_references(db, checks);
  check_units(db, checks);
  check_contents(db, checks);
  Statement records = db.prepare("SELECT count(*) FROM record");
  if (records.next()) out.records = static_cast<std::size_t>(records.integer(0));
  out.findings = checks.take();
  return out;
}

}  // namespace turnbench
