// Stored summaries of cells: what they say is what the records say, whatever happened to these.

#include "harness/store/cell_summary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/store/store.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

constexpr const char* kStored = "SELECT count(*) FROM cell_summary";

struct SummarizedStore : testing::Test {
  TemporaryDirectory directory;
  std::string db = directory.write("s.db", small_store());

  std::string status() const { return run_program({"status", db, "--json"}).out; }
  std::string report() const { return run_program({"report", db, "--json"}).out; }
  /// Everything that summaries are used for.
  std::string shown() const {
    std::string out = status() + report();
    const auto means = Store::open(db).mean_counters("small", {"kv_tokens"});
    for (const auto& [cell, mean] : means.at("kv_tokens"))
      out += fmt::format("{} {}\n", cell, mean);
    return out;
  }
  /// The output of status and report is the same after all summaries are computed again.
  void expect_current() const {
    const std::string stored = shown();
    execute(db, "DELETE FROM cell_summary");
    EXPECT_EQ(shown(), stored);
    EXPECT_EQ(count(db, kStored), 0) << "reading stores nothing";
    Store::open_to_write(db).usages("small");
  }
};

TEST_F(SummarizedStore, RunsStoreThem) {
  EXPECT_EQ(count(db, kStored), 4);
  expect_current();
  EXPECT_EQ(count(db, kStored), 4);
  const auto summaries = Store::open(db).summaries("small");
  ASSERT_EQ(summaries.size(), 4u);
  for (const auto& [cell, summary] : summaries) {
    EXPECT_EQ(summary.whole, 2u);
    EXPECT_EQ(summary.failed, 0u);
    EXPECT_EQ(summary.usage.answers, 4u);
    EXPECT_EQ(summary.truncation.prompts, 4u);
    EXPECT_EQ(summary.counters.at("kv_tokens").count, 4);
  }
}

// `status` computes missing summaries without storing them, so it needs no lock.
TEST_F(SummarizedStore, AreComputedWhileAnotherProgramWrites) {
  const std::string stored = status();
  execute(db, "DELETE FROM cell_summary");
  Database writer(db, Database::Mode::kReadWrite);
  const Transaction transaction(writer);
  const Finished run = run_program({"status", db, "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, stored);
}

TEST_F(SummarizedStore, ChangesOfRecordsDeleteThem) {
  const std::string cell = "cell = (SELECT cell FROM experiment_cell WHERE ordinal = 1)";
  const std::vector<std::string> changes = {
      "UPDATE record SET stopped = 1 - stopped WHERE turn = 0 AND " + cell,
      "UPDATE record SET status = 'error', error = 'why' WHERE turn = 1 AND " + cell,
      "UPDATE record SET truncated_tokens = 9 WHERE " + cell,
      "UPDATE counter SET value = value / 2 WHERE name = 'kv_tokens' AND " + cell,
      "PRAGMA foreign_keys=ON; DELETE FROM record WHERE turn = 1 AND " + cell};
  for (const std::string& change : changes) {
    SCOPED_TRACE(change);
    EXPECT_EQ(count(db, kStored), 4);
    const std::string before = shown();
    execute(db, change);
    EXPECT_EQ(count(db, kStored), 3) << "of one cell";
    EXPECT_NE(shown(), before);
    expect_current();
  }
}

TEST_F(SummarizedStore, NewRecordsDeleteThem) {
  const std::string before = status();
  execute(db,
          "PRAGMA foreign_keys=ON; DELETE FROM record WHERE dialogue = (SELECT min(id) FROM "
          "dialogue)");
  Store::open_to_write(db).usages("small");
  EXPECT_EQ(count(db, kStored), 4);
  EXPECT_NE(status(), before);
  directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
  const std::string manifest = directory.write("m.json", small_manifest());
  ASSERT_EQ(run_program({"run", manifest, "--db", db}).code, 0);
  EXPECT_EQ(status(), before);
  expect_current();
}

TEST_F(SummarizedStore, UnreadableOnesAreComputedAnew) {
  const std::string want = shown();
  for (const char* json : {"{", "{}", "[]", "7", "{\"version\":0}",
                           "{\"version\":1,\"usage\":[1,2],\"truncation\":[]}"}) {
    execute(db, std::string("UPDATE cell_summary SET json = '") + json + "'");
    EXPECT_EQ(shown(), want) << json;
  }
}

TEST_F(SummarizedStore, GoWithTheirCells) {
  ASSERT_EQ(run_program({"forget", db, "--experiment", "small"}).code, 0);
  EXPECT_EQ(count(db, kStored), 0);
}

TEST_F(SummarizedStore, AreCheckedByDoctor) {
  execute(db, "UPDATE cell_summary SET json = replace(json, '\"whole\":2', '\"whole\":1')");
  const Finished found = run_program({"doctor", db});
  EXPECT_EQ(found.code, 1);
  EXPECT_NE(found.out.find("4 summaries of cells that do not fit their records, for example: tiny"),
            std::string::npos)
      << found.out;
}

}  // namespace
}  // namespace turnbench::test
