// Files that are not stores, and damaged stores, through the command line.  No existing file may
// change.

#include <gtest/gtest.h>

#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"

namespace turnbench::test {
namespace {

Arguments report(const std::string& db) {
  return {"report", db};
}

/// A case that replaces the store's bytes.
Malformed bytes(const char* name, std::function<std::string(std::string)> damage,
                const char* expected) {
  return {name,
          [damage](const TemporaryDirectory& d) {
            return report(d.write("s.db", damage(small_store())));
          },
          expected};
}

/// A case that runs SQL on the store.
Malformed sql(const char* name, const char* statement, const char* expected) {
  return {name,
          [statement](const TemporaryDirectory& d) {
            const std::string file = d.write("s.db", small_store());
            execute(file, statement);
            return report(file);
          },
          expected};
}

/// A case that runs SQL on the store in the schema before the current one.
Malformed older(const char* name, const char* statement, const char* expected) {
  return {name,
          [statement](const TemporaryDirectory& d) {
            const std::string file = d.write("s.db", small_store());
            make_older(file, 4);
            execute(file, statement);
            return report(file);
          },
          expected};
}

/// A store whose dialogues lack a turn that has answers.
std::string without_last_turn(const TemporaryDirectory& d) {
  const std::string file = d.write("s.db", small_store());
  execute(file, "UPDATE dialogue SET json = json_remove(json, '$.turns[1]')");
  return file;
}

/// A case that runs a valid manifest with a store that SQL has created.
Malformed run_into(const char* name, const char* statement, const char* expected) {
  return {name,
          [statement](const TemporaryDirectory& d) -> Arguments {
            execute(d.path("other.db"), statement);
            d.write("small.csv", "method,value\nfull,1\n");
            return {"run", d.write("m.json", small_manifest()), "--db", d.path("other.db")};
          },
          expected};
}

TEST(MalformedStore, Files) {
  const Malformed cases[] = {
      {"missing", [](const TemporaryDirectory& d) { return report(d.path("x.db")); },
       "x.db: found no such file, expected a turnbench store"},
      {"a directory", [](const TemporaryDirectory& d) { return report(d.path("")); },
       "expected a turnbench store"},
      bytes(
          "empty", [](std::string) { return ""; },
          "s.db: found no experiment, expected at least one"),
      bytes(
          "short text", [](std::string) { return "hello"; }, "file is not a database"),
      bytes(
          "long text", [](std::string) { return std::string(10000, 'x'); },
          "file is not a database"),
      bytes(
          "cut after the header", [](std::string s) { return s.substr(0, 100); }, "s.db: found"),
      bytes(
          "cut in the middle", [](std::string s) { return s.substr(0, s.size() / 2); },
          "malformed"),
      bytes(
          "garbage behind the first page",
          [](std::string s) { return s.replace(4096, s.size() - 4096, s.size() - 4096, '\xa5'); },
          "malformed"),
      bytes(
          "NUL bytes behind the header",
          [](std::string s) { return s.replace(100, s.size() - 100, s.size() - 100, '\0'); },
          "malformed"),
      bytes(
          "another magic", [](std::string s) { return s.replace(0, 6, "SQLite4"); },
          "file is not a database"),
  };
  expect_refusals(cases);
}

TEST(MalformedStore, Contents) {
  const Malformed cases[] = {
      sql("another program's", "PRAGMA application_id=1", "an SQLite file of another program"),
      sql("newer schema", "PRAGMA user_version=99",
          "found schema version 99, expected 1 to 6: made by a newer turnbench"),
      sql("older schema", "PRAGMA user_version=0", "found schema version 0"),
      sql("missing table", "DROP TABLE score_data", "no such table: score_data"),
      sql("missing column",
          "PRAGMA foreign_keys=OFF; DROP VIEW record; ALTER TABLE record_data RENAME COLUMN status "
          "TO state",
          "no such column"),
      sql("no experiment", "PRAGMA foreign_keys=OFF; DELETE FROM experiment",
          "found no experiment"),
      sql("manifest is no JSON", "UPDATE experiment SET manifest = '{'",
          "s.db: manifest of small: column"),
      sql("manifest of another kind", "UPDATE experiment SET manifest = '[]'",
          "manifest of small: /: found an array of 0"),
      sql("published number is text",
          "UPDATE experiment SET published = 'value' || char(10) || 'x'",
          "published numbers of small: line 2: found the value \"x\""),
      sql("score is missing", "DELETE FROM score", "found no score of dialogue"),
      sql("score is text", "UPDATE score SET value = 'high'", "found a text, expected a number"),
      older("turn is text",
            "PRAGMA foreign_keys=OFF; UPDATE record SET turn = 'x' || dialogue WHERE turn = 0",
            "expected a number"),
      older("turn is beyond all",
            "PRAGMA foreign_keys=OFF; UPDATE record SET turn = 1 << 40 WHERE turn = 0; UPDATE "
            "score SET turn = 1 << 40 WHERE turn = 0",
            "found the turn 1099511627776"),
      sql("turn is beyond the others",
          "UPDATE record_data SET id = id + 12000 WHERE id & 16383 = 0", "found the turn 12000"),
      {"dialogue without its last turn, score",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"score", without_last_turn(d)};
       },
       ": found 1 turns, expected 2"},
      {"dialogue without its last turn, import",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"import-predictions",
                 d.write("p.jsonl", "{}"),
                 "--db",
                 without_last_turn(d),
                 "--label",
                 "x",
                 "--experiment",
                 "small"};
       },
       ": found 1 turns, expected 2"},
      {"unknown experiment",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report", d.write("s.db", small_store()), "--experiment", "smal"};
       },
       "found no experiment \"smal\", expected one of: small"},
      {"unknown experiment, status",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"status", d.write("s.db", small_store()), "--experiment", "big"};
       },
       "found no experiment \"big\""},
      {"unknown format",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report",           d.write("s.db", small_store()), "--format", "docx", "-o",
                 d.write("o", "old")};
       },
       "--format: found \"docx\""},
      {"--long without csv",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report", d.write("s.db", small_store()), "--long"};
       },
       "--long: found the format md, expected"},
      {"--json with another format",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report", d.write("s.db", small_store()), "--json", "--format", "csv"};
       },
       "--json: found --format csv too"},
  };
  expect_refusals(cases);
}

TEST(MalformedStore, RunDoesNotOverwriteOtherFiles) {
  const Malformed cases[] = {
      run_into("another program's tables", "CREATE TABLE t(x); INSERT INTO t VALUES (1)",
               "other.db: found an SQLite file of another program"),
      run_into("another program's empty file", "PRAGMA application_id=7; PRAGMA user_version=7",
               "other.db: found an SQLite file of another program"),
      run_into("another program's mode",
               "PRAGMA journal_mode=DELETE; PRAGMA page_size=512; CREATE TABLE t(x)",
               "other.db: found an SQLite file of another program"),
      {"newer schema",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string file = d.write("s.db", small_store());
         execute(file, "PRAGMA user_version=7");
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), "--db", file};
       },
       "found schema version 7, expected 1 to 6"},
      {"no such directory",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), "--db", d.path("no/such.db")};
       },
       "no/such.db: found no folder "},
      {"a folder",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), "--db", d.path()};
       },
       "found a folder, expected a turnbench store"},
      {"no name",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), "--db", ""};
       },
       "store: found the name \"\", expected a file"},
      {"a store that would not stay",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), "--db", ":memory:"};
       },
       "store: found the name \":memory:\", expected a file"},
      {"second manifest is bad, so the first does not run",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("small.csv", "method,value\nfull,1\n");
         return {"run", d.write("m.json", small_manifest()), d.write("n.json", "{}"), "--db",
                 d.path("s.db")};
       },
       "n.json: /: found no key \"name\""},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
