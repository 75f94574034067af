// `doctor DB`: a good store is found good, and each kind of damage is found and named.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

class StoreDoctor : public testing::Test {
 protected:
  Finished check(const std::string& sql, const std::string& name = "s.db") const {
    const std::string db = directory_.write(name, small_store());
    if (!sql.empty()) execute(db, "PRAGMA foreign_keys=OFF; " + sql);
    const auto before = directory_.content();
    Finished out = run_program({"doctor", db});
    EXPECT_TRUE(directory_.content() == before) << "it only reads";
    return out;
  }
  /// The damage is found: exit code 1, and one line that begins so.
  void expect_finding(const std::string& sql, const std::string& line) const {
    const Finished found = check(sql);
    EXPECT_EQ(found.code, 1) << sql;
    EXPECT_EQ(found.err, "");
    bool any = false;
    for (const std::string& each : found.lines())
      any |= each.starts_with(directory_.path("s.db") + ": " + line);
    EXPECT_TRUE(any) << sql << ":\n" << found.out;
  }

  TemporaryDirectory directory_;
};

TEST_F(StoreDoctor, AGoodStoreHasNoFindings) {
  const Finished good = check("");
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_EQ(good.out, directory_.path("s.db") + ": no problems in 16 records\n");
  EXPECT_EQ(good.err, "");
  const Json json = run_program({"doctor", directory_.path("s.db"), "--json"}).json();
  EXPECT_EQ(json["records"], 16);
  EXPECT_TRUE(json["findings"].empty());
  const std::string empty = directory_.write("empty.db", "");
  EXPECT_EQ(run_program({"doctor", empty}).out, empty + ": no problems in 0 records\n");
}

TEST_F(StoreDoctor, NamesEachKindOfDamage) {
  const std::string label = "tiny, tiny-fact, ";
  expect_finding("DELETE FROM record WHERE turn = 1 AND dialogue = (SELECT min(id) FROM dialogue)",
                 "4 dialogues of which a cell has too few turns, for example: " + label);
  expect_finding("INSERT INTO model VALUES ('m', 'x')", "1 models of no cell, for example: m");
  expect_finding("INSERT INTO method VALUES ('m')", "1 methods of no cell, for example: m");
  expect_finding("INSERT INTO protocol VALUES ('p', '{}')",
                 "1 protocols of no cell, for example: p");
  expect_finding("INSERT INTO dataset VALUES ('d', 'x', '')",
                 "1 datasets of no cell, for example: d");
  expect_finding("UPDATE dialogue SET json = '{'",
                 "2 dialogues that cannot be read, for example: dialogue ");
  expect_finding("UPDATE dialogue SET turns = 3",
                 "2 dialogues that cannot be read, for example: dialogue ");
  expect_finding(
      "INSERT INTO ledger SELECT cell, dialogue, turn, x'7f', '' FROM record WHERE turn = 0",
      "8 ledgers that cannot be read, for example: " + label);
  expect_finding("PRAGMA user_version=99", "1 schema of another program or version, for example: ");
  expect_finding("PRAGMA application_id=1",
                 "1 schema of another program or version, for example: ");
}

// They stay, for a run in which the file has these contents again.
TEST_F(StoreDoctor, ResultsOfEarlierDataAreNoProblem) {
  const Finished good = check("DELETE FROM experiment_cell WHERE ordinal = 0");
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("no problems in 16 records"), std::string::npos) << good.out;
}

TEST_F(StoreDoctor, FindsRowsThatReferToNothing) {
  expect_finding(
      "DELETE FROM environment",
      "16 rows that refer to missing rows, for example: a row of record_data without its "
      "environment");
  expect_finding("DELETE FROM dialogue WHERE id = (SELECT min(id) FROM dialogue)",
                 "8 records of unknown cells, dialogues or turns, for example: tiny, tiny-fact, ");
}

TEST_F(StoreDoctor, FindsDefectsOfTheFile) {
  constexpr std::size_t kPage = 4096;
  // A page of the schema or of a table, and any later ones.
  for (const std::size_t page : {std::size_t{1}, small_store().size() / kPage / 2}) {
    std::string bytes = small_store();
    for (std::size_t at = page * kPage; at < bytes.size(); at += 2 * kPage)
      bytes.replace(at, kPage, kPage, '\xa5');
    const std::string db = directory_.write("s.db", bytes);
    const Finished found = run_program({"doctor", db});
    EXPECT_EQ(found.code, 1) << found.err;
    EXPECT_NE(found.out.find(" defects of the database file, for example: "), std::string::npos)
        << found.out;
    const Json json = run_program({"doctor", db, "--json"}).json();
    EXPECT_EQ(json["findings"][0]["kind"], "integrity");
    EXPECT_GT(json["findings"][0]["count"], 0);
  }
}

TEST_F(StoreDoctor, WithoutAStoreDescribesTheMachine) {
  const Finished machine = run_program({"doctor"});
  EXPECT_EQ(machine.code, 0);
  EXPECT_NE(machine.out.find("processors"), std::string::npos);
}

TEST(MalformedDoctor, Files) {
  const Malformed cases[] = {
      {"missing",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"doctor", d.path("x.db")};
       },
       "x.db: found no such file, expected a turnbench store"},
      {"no database",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"doctor", d.write("x.db", std::string(5000, 'x'))};
       },
       "x.db: found no usable database"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
