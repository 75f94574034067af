#include "harness/store.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/harness/program.h"
#include "tests/harness/store_dump.h"

namespace turnbench {
namespace {

using namespace test;

Store::Plan plan_of(const std::string& experiment, const std::string& manifest,
                    const std::vector<std::string>& keys) {
  Store::Plan plan;
  plan.experiment = experiment;
  plan.title = experiment;
  plan.manifest = manifest;
  plan.environment = "{}";
  plan.models = {{"m", "model"}};
  plan.datasets = {{"d", "dataset"}};
  plan.dialogues = {{"d", "x", 2, "{}"}, {"d", "y", 2, "{}"}};
  for (const std::string& key : keys) {
    plan.cells.push_back({key, "tiny", "facts", "qa", "end", "full", "reprefill", "own", "qa_f1",
                          "none", "m", "d", "full", "p", "{}"});
  }
  return plan;
}

std::vector<Record> records_of(const std::string& cell, const std::string& dialogue,
                               Record::Status status = Record::Status::kOk) {
  std::vector<Record> out(2);
  for (int turn = 0; turn < 2; ++turn) {
    Record& r = out[static_cast<std::size_t>(turn)];
    r.cell = cell;
    r.dialogue = dialogue;
    r.turn = turn;
    r.status = status;
    r.error = status == Record::Status::kOk ? "" : "why";
    r.answer_tokens = {1, 2};
    if (status == Record::Status::kOk) r.counters = {{"kv_tokens", 5}};
  }
  return out;
}

std::vector<ScoreValue> scores_of(const std::string& cell, const std::string& dialogue,
                                  double value) {
  return {{cell, dialogue, 0, "qa_f1", "none", value}, {cell, dialogue, 1, "qa_f1", "none", value}};
}

TEST(Store, WritesAreIdempotent) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_plan(plan_of("e", "text", {"c1", "c2"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  const Dump before = dump(directory.path("a.db"), true);
  store.add_plan(plan_of("e", "text", {"c1", "c2"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  expect_same(dump(directory.path("a.db"), true), before);
  EXPECT_EQ(store.done("e"),
            (std::map<std::pair<std::string, std::string>, int>{{{"c1", "x"}, 2}}));
}

// A record that comes twice in one batch is stored once, with its score.
TEST(Store, ARecordTwiceInOneWriteKeepsItsScore) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_plan(plan_of("e", "text", {"c1"}));
  std::vector<Record> records = records_of("c1", "x");
  const std::vector<Record> again = records;
  records.insert(records.end(), again.begin(), again.end());
  store.add_records(records, scores_of("c1", "x", 0.5));
  EXPECT_EQ(store.scores("e").size(), again.size());
}

// A record that is there stays as it is, with its own scores: the first one stored wins whole.
TEST(Store, TheFirstRecordWins) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_plan(plan_of("e", "text", {"c1"}));
  store.add_records(records_of("c1", "x", Record::Status::kOutOfMemory), {});
  const Dump before = dump(directory.path("a.db"), true);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  expect_same(dump(directory.path("a.db"), true), before);
  EXPECT_EQ(store.failures("e").size(), 2u);
  EXPECT_EQ(store.forget_failed("e"), 2);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  EXPECT_TRUE(store.failures("e").empty());
  EXPECT_EQ(store.scores("e").size(), 2u);
  EXPECT_EQ(store.mean_counter("e", "kv_tokens").at("c1"), 5);
}

// A failure inside a transaction leaves nothing of it.
TEST(Store, AHalfWrittenUnitIsNotThere) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_plan(plan_of("e", "text", {"c1"}));
  const Dump before = dump(directory.path("a.db"), true);
  std::vector<Record> records = records_of("c1", "x");
  records[1].cell = "unknown";  // refused by its foreign key, after the first one was written
  EXPECT_THROW(store.add_records(records, scores_of("c1", "x", 1)), Error);
  expect_same(dump(directory.path("a.db"), true), before);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  EXPECT_EQ(store.done("e").size(), 1u);
}

// Each experiment reads with the manifest that was planned last, and forgets only its own failures.
TEST(Store, ExperimentsKeepApart) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_plan(plan_of("a", "a1", {"c1"}));
  store.add_plan(plan_of("b", "b1", {"c2"}));
  store.add_plan(plan_of("a", "a2", {"c1", "c3"}));
  EXPECT_EQ(store.experiments(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(store.manifest("a"), "a2");
  EXPECT_EQ(store.cells("a").size(), 2u);
  store.add_records(records_of("c1", "x", Record::Status::kError), {});
  store.add_records(records_of("c2", "x", Record::Status::kError), {});
  EXPECT_EQ(store.forget_failed("a"), 2);
  EXPECT_EQ(store.failures("b").size(), 2u);
  store.add_plan(plan_of("a", "a1", {"c1"}));  // back to the earlier text
  EXPECT_EQ(store.manifest("a"), "a1");
  EXPECT_EQ(store.cells("a").size(), 1u);
  EXPECT_THROW(store.manifest("c"), Error);
}

TEST(Store, RefusesWhatIsNoStore) {
  const TemporaryDirectory directory;
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message([&] { Store::open(directory.path("none.db")); }).find("no such file"),
            std::string::npos);
  const std::string text = directory.write("text.db", std::string(5000, 'x'));
  EXPECT_NE(message([&] { Store::create(text); }).find("expected a turnbench store"),
            std::string::npos);
  {
    Database other(directory.path("other.db"), Database::Mode::kCreate);
    other.execute("CREATE TABLE t (x)");
  }
  EXPECT_NE(message([&] { Store::create(directory.path("other.db")); }).find("another program"),
            std::string::npos);
  { Store::create(directory.path("new.db")); }
  {
    Database newer(directory.path("new.db"), Database::Mode::kExisting);
    newer.execute("PRAGMA user_version=99");
  }
  EXPECT_NE(message([&] { Store::open(directory.path("new.db")); }).find("version 99"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
