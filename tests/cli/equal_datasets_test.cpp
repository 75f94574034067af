// Two labels with equal content in a manifest: computed and stored once, shown twice.

#include <gtest/gtest.h>

#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

Json dataset(const char* label, int seed) {
  return {{"name", "tiny-fact"}, {"label", label}, {"limit", 3}, {"length", 150}, {"seed", seed}};
}

/// 7 turns in 3 dialogues under each label; "other" has another content.
Json manifest_of(const Json& datasets) {
  return {{"name", "small"},
          {"models", {"tiny"}},
          {"datasets", datasets},
          {"methods", {"full", "snapkv:budget=40,window=8", "snapkv:budget=0.01,window=8"}},
          {"probes", {"coverage:eta=0.1", "token-overlap:window=8"}},
          {"max_new_tokens", 8}};
}

class EqualDatasets : public testing::Test {
 protected:
  Finished program(const char* command, const Json& manifest, const std::string& db = "") const {
    const std::string path = directory_.write("m.json", manifest.dump());
    if (db.empty()) return run_program({command, path, "--json"});
    return run_program({command, path, "--db", file(db)});
  }
  std::string file(const std::string& name) const { return directory_.path(name); }

  const Json once_ = manifest_of({dataset("first", 0), dataset("other", 1)});
  const Json twice_ = manifest_of({dataset("first", 0), dataset("other", 1), dataset("second", 0)});
  TemporaryDirectory directory_;
};

TEST_F(EqualDatasets, ArePlannedOnce) {
  const Json once = program("plan", once_).json(), twice = program("plan", twice_).json();
  EXPECT_EQ(once["cells"], 2 * 5);
  EXPECT_EQ(twice["cells"], 3 * 5) << "of the table";
  for (const char* cost : {"units", "shared_prefills", "prompt_tokens", "max_new_tokens"})
    EXPECT_EQ(twice[cost], once[cost]) << cost;
}

TEST_F(EqualDatasets, ShowEqualNumbers) {
  ASSERT_EQ(program("run", once_, "once.db").code, 1) << "0.01 of a prompt is less than a window";
  const Finished ran = program("run", twice_, "twice.db");
  ASSERT_EQ(ran.code, 1);
  const Dump once = dump(file("once.db")), twice = dump(file("twice.db"));
  for (const char* table : {"record", "score", "counter", "timing", "cell", "dialogue"})
    EXPECT_EQ(twice.at(table), once.at(table)) << table;
  EXPECT_EQ(count(file("twice.db"),
                  "SELECT count(*) FROM record r LEFT JOIN score s USING (cell, dialogue, turn) "
                  "WHERE (r.status = 'ok') <> (s.value IS NOT NULL)"),
            0)
      << "what was answered has its score";
  EXPECT_EQ(count(file("twice.db"), "SELECT count(*) FROM experiment_cell"), 3 * 5);

  // Five cells for each label, in its order.
  Json cells = run_program({"report", file("twice.db"), "--json"}).json()["cells"];
  const Json want = run_program({"report", file("once.db"), "--json"}).json()["cells"];
  ASSERT_EQ(cells.size(), 3u * 5);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(cells[i], want[i]);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(cells[10 + i]["dataset"], "second");
    cells[10 + i]["dataset"] = "first";
    EXPECT_EQ(cells[10 + i], want[i]);
  }
  EXPECT_EQ(want[0]["n"], 3);
  EXPECT_EQ(want[0]["turns"], 7);
  EXPECT_EQ(want[2]["failed"], 7);
  EXPECT_NE(want[0]["mean"], want[5]["mean"]) << "or else nothing is compared";

  const auto without_value = [&](const char* db) {
    execute(file(db), "UPDATE record SET status = 'no_value' WHERE turn = 0 AND status = 'ok'");
    return run_program({"report", file(db)}).lines().back();
  };
  EXPECT_NE(without_value("once.db").find(" turns have no value"), std::string::npos);
  EXPECT_EQ(without_value("twice.db"), without_value("once.db")) << "each counts once";
}

// Finished work is identified by its content, not by its label.
TEST_F(EqualDatasets, AreRunOnce) {
  const Finished first = program("run", once_, "a.db");
  const Finished more = program("run", twice_, "a.db"), again = program("run", twice_, "a.db");
  for (const Finished& run : {more, again})
    EXPECT_NE(run.err.find("0 units done"), std::string::npos) << run.err;
  EXPECT_EQ(again.out, more.out);
  const Json status = run_program({"status", file("a.db"), "--json"}).json();
  EXPECT_EQ(status[0]["pending"], 0);
  EXPECT_EQ(status[0]["done"].get<int>() + status[0]["failed_dialogues"].get<int>(), 3 * 3 * 5);
  EXPECT_EQ(status[0]["failed"], 2 * 7) << "as many as there are records";
  const Dump before = dump(file("a.db"));
  const Finished retry = run_program({"status", file("a.db"), "retry"});
  EXPECT_NE(retry.err.find("14 failed records forgotten"), std::string::npos) << retry.err;
  expect_same(dump(file("a.db")), before);
}

// Times are read from the store in another way than scores.
TEST_F(EqualDatasets, ShowEqualTimes) {
  Json manifest = twice_;
  manifest.erase("probes");
  manifest["methods"] = {"full"};
  manifest["alone"] = true;
  manifest["tables"] = {{{"value", "ttft"}, {"rows", "dataset"}, {"columns", "method"}}};
  ASSERT_EQ(program("run", manifest, "a.db").code, 0);
  const std::vector<std::string> lines =
      run_program({"report", file("a.db"), "--format", "csv"}).lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].substr(lines[1].find(',')), lines[3].substr(lines[3].find(',')));
  EXPECT_NE(lines[1].find(",7,0"), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace turnbench::test
