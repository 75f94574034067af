#include "harness/store/store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "harness/store/integrity.h"
#include "harness/store/packed_ledger.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"
#include "tests/harness/store/store_dump.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

StoredExperiment plan_of(const std::string& experiment, const std::string& manifest,
                         const std::vector<std::string>& keys) {
  StoredExperiment out;
  out.name = experiment;
  out.title = experiment;
  out.manifest = manifest;
  out.environment = "{}";
  out.models = {{"m", "model"}};
  out.datasets = {{"d", "dataset"}};
  out.dialogues = {{"d", "x", 2, "{}"}, {"d", "y", 2, "{}"}};
  for (const std::string& key : keys) {
    out.cells.push_back({key, "tiny", "facts", "qa", "end", "full", "reprefill", "own", "qa_f1",
                         "none", "m", "d", "full", "p", "{}"});
  }
  return out;
}

std::vector<Record> records_of(const std::string& cell, const std::string& dialogue,
                               Record::Status status = Record::Status::kOk) {
  std::vector<Record> out(2);
  for (int turn = 0; turn < 2; ++turn) {
    Record& r = out[turn];
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
  store.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  const Dump before = dump(directory.path("a.db"), true);
  store.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  expect_same(dump(directory.path("a.db"), true), before);
  EXPECT_EQ(store.stored_turn_counts("e"),
            (std::map<std::pair<std::string, std::string>, int>{{{"c1", "x"}, 2}}));
}

// A record that occurs twice in one batch is stored once, with its score.
TEST(Store, DuplicateRecordInOneWriteKeepsItsScore) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1"}));
  std::vector<Record> records = records_of("c1", "x");
  const std::vector<Record> again = records;
  records.insert(records.end(), again.begin(), again.end());
  store.add_records(records, scores_of("c1", "x", 0.5));
  EXPECT_EQ(store.scores("e").size(), again.size());
}

// An existing record does not change, and keeps its scores: the first one stored remains as a
// whole.
TEST(Store, TheFirstRecordWins) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1"}));
  store.add_records(records_of("c1", "x", Record::Status::kOutOfMemory), {});
  const Dump before = dump(directory.path("a.db"), true);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  expect_same(dump(directory.path("a.db"), true), before);
  EXPECT_EQ(store.failures("e").size(), 2u);
  EXPECT_EQ(store.forget_failed("e"), 2);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  EXPECT_TRUE(store.failures("e").empty());
  EXPECT_EQ(store.scores("e").size(), 2u);
  EXPECT_EQ(store.mean_counters("e", {"kv_tokens"}).at("kv_tokens").at("c1"), 5);
}

// A failure inside a transaction rolls it back completely.
TEST(Store, PartiallyWrittenUnitsAreRolledBack) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1"}));
  const Dump before = dump(directory.path("a.db"), true);
  std::vector<Record> records = records_of("c1", "x");
  records[1].cell = "unknown";  // refused by its foreign key, after the first one was written
  EXPECT_THROW(store.add_records(records, scores_of("c1", "x", 1)), Error);
  expect_same(dump(directory.path("a.db"), true), before);
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 1));
  EXPECT_EQ(store.stored_turn_counts("e").size(), 1u);
}

// Each experiment is read with the manifest that was planned last, and only its failures are
// forgotten.
TEST(Store, ExperimentsAreIndependent) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("a", "a1", {"c1"}));
  store.add_experiment(plan_of("b", "b1", {"c2"}));
  store.add_experiment(plan_of("a", "a2", {"c1", "c3"}));
  EXPECT_EQ(store.experiments(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(store.manifest("a"), "a2");
  EXPECT_EQ(store.cells("a").size(), 2u);
  store.add_records(records_of("c1", "x", Record::Status::kError), {});
  store.add_records(records_of("c2", "x", Record::Status::kError), {});
  EXPECT_EQ(store.forget_failed("a"), 2);
  EXPECT_EQ(store.failures("b").size(), 2u);
  store.add_experiment(plan_of("a", "a1", {"c1"}));  // back to the earlier text
  EXPECT_EQ(store.manifest("a"), "a1");
  EXPECT_EQ(store.cells("a").size(), 1u);
  EXPECT_THROW(store.manifest("c"), Error);
}

// The manifest's cells keep their order, however often it is planned and results are imported.
TEST(Store, ImportedCellsFollowThePlannedOnes) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  for (const char* key : {"i1", "i2", "i1"}) store.add_imported(plan_of("e", "text", {key}));
  store.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  std::vector<std::string> keys;
  for (const Cell& c : store.cells("e")) keys.push_back(c.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"c1", "c2", "i1", "i2"}));
}

TEST(Store, ScoresAreAddedAndReplacedOnlyWhenAsked) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  using Before = std::vector<std::optional<double>>;
  const std::vector<ScoreValue> more = {{"c1", "x", 0, "qa_f1", "none", 0.25},
                                        {"c1", "x", 1, "rouge", "none", 1}};
  EXPECT_EQ(store.put_scores(more, false), (Before{0.5, std::nullopt}));
  EXPECT_EQ(store.put_scores(more, true), (Before{0.5, 1.0}));
  EXPECT_EQ(store.put_scores(more, false), (Before{0.25, 1.0}));
  EXPECT_EQ(store.metrics("e"), (std::vector<std::string>{"qa_f1", "rouge"}));
  EXPECT_EQ(store.postprocesses("e", "rouge"), (std::map<std::string, bool>{{"none", true}}));
  // For another metric a turn may have no value; for its own metric it must have one.
  const std::vector<ScoredTurn> rouge = store.scores("e", {"rouge", ""});
  EXPECT_EQ(rouge[0].status, Record::Status::kNoValue);
  EXPECT_EQ(rouge[1].score, 1);
}

// A reader of the answers may write between two dialogues, whatever another process has committed.
TEST(Store, AnswersAreReadDuringConcurrentWrites) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  for (const char* dialogue : {"x", "y"})
    store.add_records(records_of("c1", dialogue), scores_of("c1", dialogue, 0.5));
  Store other = Store::open_to_write(directory.path("a.db"));
  other.add_experiment(plan_of("e", "text", {"c1", "c2"}));
  std::vector<std::string> taken;
  store.for_each_answered_dialogue(
      "e", [&](const StoredDialogue& d, const std::vector<Store::Answer>& a) {
        EXPECT_EQ(a.size(), 2u);
        store.put_scores({{"c1", d.id, 0, "rouge", "none", 1}}, false);
        other.add_records(records_of("c2", d.id), scores_of("c2", d.id, 0.25));
        store.put_scores({{"c1", d.id, 1, "rouge", "none", 1}}, false);
        taken.push_back(d.id);
      });
  EXPECT_EQ(taken, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(store.metrics("e"), (std::vector<std::string>{"qa_f1", "rouge"}));
}

Judgement judgement_of(int ordinal, Judgement::Status status, double score) {
  Judgement out;
  out.cell = "c1";
  out.dialogue = "x";
  out.judge = "j";
  out.ordinal = ordinal;
  out.status = status;
  out.reply = "what \"it\" said";
  if (status == Judgement::Status::kOk) out.scores = {{"overall", score}};
  return out;
}

TEST(Store, OnlyFailedJudgementsAreReplaced) {
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(plan_of("e", "text", {"c1"}));
  store.add_records(records_of("c1", "x"), scores_of("c1", "x", 0.5));
  store.add_judge({"j", "rubric", "hash", "text", "model"});
  using Status = Judgement::Status;
  store.add_judgement(judgement_of(0, Status::kFailed, 0));
  store.add_judgement(judgement_of(1, Status::kUnparsed, 0));
  store.add_judgement(judgement_of(0, Status::kOk, 7));
  store.add_judgement(judgement_of(0, Status::kOk, 8));
  store.add_judgement(judgement_of(1, Status::kOk, 9));
  const std::vector<Judgement> got = store.judgements("j", "c1", "x", 0);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].status, Status::kOk);
  EXPECT_EQ(got[0].reply, "what \"it\" said");
  EXPECT_EQ(got[0].scores.at(0).value, 7);
  EXPECT_EQ(got[1].status, Status::kUnparsed);
  EXPECT_TRUE(got[1].scores.empty());
  EXPECT_TRUE(store.judgements("j", "c1", "x", 1).empty());
  Judgement stray = judgement_of(0, Status::kOk, 1);
  stray.turn = 7;  // there is no such record
  EXPECT_THROW(store.add_judgement(stray), Error);
}

/// A store with rows of every kind, long texts among them.
void fill(const std::string& path) {
  Store store = Store::create(path);
  StoredExperiment plan = plan_of("e", "text", {"c1", "c2"});
  plan.dialogues[1].json = "{\"text\": \"" + std::string(5000, 'x') + "\"}";
  store.add_experiment(plan);
  for (const char* cell : {"c1", "c2"}) {
    std::vector<Record> records = records_of(cell, "y");
    records[0].answer = std::string(3000, 'y') + cell;
    records[0].timings = {{"prefill_share", 1 / 3.}};
    Ledger ledger;
    ledger.begin_step(2);
    ledger.now(1).hits = 7;
    records[1].ledger = pack(ledger);
    store.add_records(records, scores_of(cell, "y", 1 / 3.));
    store.add_records(records_of(cell, "x", Record::Status::kError), {});
  }
  store.add_judge({"j", "rubric", "hash", "text", "model"});
  Judgement judgement;
  judgement.cell = "c1";
  judgement.dialogue = "y";
  judgement.judge = "j";
  judgement.reply = std::string(2000, 'z');
  judgement.scores = {{"overall", 7}};
  store.add_judgement(judgement);
}

/// What every schema has: older ones lack tables and columns.
Dump common_part(Dump dump) {
  for (const char* table : {"judge", "judgement", "ledger"}) dump.erase(table);
  for (const auto& [table, column] :
       {std::pair("score", "sources="), std::pair("dataset", "sources="),
        std::pair("dialogue", "content=")}) {
    for (std::string& row : dump.at(table)) row.erase(std::min(row.find(column), row.size()));
  }
  return dump;
}

TEST(Store, OlderStoresAreMigratedOnlyForWriting) {
  for (int version = 1; version <= 4; ++version) {
    SCOPED_TRACE(version);
    const TemporaryDirectory directory;
    const std::string path = directory.path("a.db");
    fill(path);
    const Dump whole = dump(path, true);
    make_older(path, version);
    const Dump before = dump(path, true);
    expect_same(common_part(before), common_part(whole));
    {
      const Store store = Store::open(path);
      EXPECT_EQ(store.scores("e", {"qa_f1", "none"}).size(), 8u);
      EXPECT_EQ(store.failures("e").size(), 4u);
      EXPECT_EQ(store.answers("c2", "y").at(0), std::string(3000, 'y') + "c2");
      EXPECT_EQ(store.dialogue("d", "y").json.size(), 5012u);
      EXPECT_EQ(store.mean_counters("e", {"kv_tokens"}).at("kv_tokens").at("c1"), 5);
      EXPECT_EQ(store.values("e", "prefill_share").size(), 2u);
      EXPECT_EQ(store.stored_turn_counts("e").size(), 4u);
      EXPECT_EQ(store.stored_results("c1").size(), 2u);
      EXPECT_EQ(store.turn_results("c1").size(), 4u);
      EXPECT_EQ(store.metrics("e"), std::vector<std::string>{"qa_f1"});
      EXPECT_EQ(store.judgements("j", "c1", "y", 0).size(), version >= 2 ? 1u : 0u);
    }
    expect_same(dump(path, true), before);
    EXPECT_EQ(count(path, "PRAGMA user_version"), version);
    Store::open_to_write(path).add_judge({"j", "rubric", "hash", "text", "model"});
    EXPECT_EQ(count(path, "PRAGMA user_version"), 6);
    const Dump after = dump(path, true);
    expect_same(version == 4 ? after : common_part(after),
                version == 4 ? whole : common_part(whole));
    EXPECT_EQ(count(path, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'old%'"), 0);
    EXPECT_EQ(count(path, "SELECT count(*) FROM record_data WHERE typeof(answer) = 'blob'"), 2);
    EXPECT_EQ(count(path, "SELECT count(*) FROM dialogue WHERE typeof(json) = 'blob'"), 1);
    EXPECT_TRUE(check_store(path).findings.empty() ||
                check_store(path).findings[0].kind == "dialogues");
    // Rows that refer to others still go with them.
    Store store = Store::open_to_write(path);
    store.forget({"c1", "c2"}, "e");
    EXPECT_EQ(count(path, "SELECT count(*) FROM score_data"), 0);
  }
}

// What no row of the new schema can stand for is refused, and the store stays as it is.
TEST(Store, MigrationLosesNothing) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.db");
  const auto refusal = [&](const char* sql) {
    std::filesystem::remove(path);
    fill(path);
    make_older(path, 4);
    execute(path, std::string("PRAGMA foreign_keys=OFF; ") + sql);
    const Dump before = dump(path, true);
    std::string message;
    try {
      Store::open_to_write(path);
    } catch (const Error& error) {
      message = error.what();
    }
    if (!message.empty()) expect_same(dump(path, true), before);
    return message;
  };
  EXPECT_NE(refusal("DELETE FROM cell WHERE key = 'c1'").find("the store cannot be upgraded (see"),
            std::string::npos);
  EXPECT_NE(refusal("UPDATE score SET dialogue = 'z' WHERE turn = 1")
                .find("found 2 rows of the table score that refer to missing rows"),
            std::string::npos);
  EXPECT_NE(refusal("UPDATE record SET turn = 1 << 40 WHERE turn = 1").find("found the turn 1099"),
            std::string::npos);
  // A dialogue that is not listed is added without its text.
  EXPECT_EQ(refusal("DELETE FROM dialogue WHERE id = 'x'"), "");
  EXPECT_EQ(count(path, "SELECT count(*) FROM record WHERE dialogue = 'x'"), 4);
  EXPECT_EQ(count(path, "SELECT turns FROM dialogue WHERE id = 'x'"), 2);
}

TEST(Store, RejectsOtherFiles) {
  const TemporaryDirectory directory;
  EXPECT_NE(test::message_of([&] { Store::open(directory.path("none.db")); }).find("no such file"),
            std::string::npos);
  const std::string text = directory.write("text.db", std::string(5000, 'x'));
  EXPECT_NE(test::message_of([&] { Store::create(text); }).find("expected a turnbench store"),
            std::string::npos);
  {
    Database other(directory.path("other.db"), Database::Mode::kCreate);
    other.execute("CREATE TABLE t (x)");
  }
  EXPECT_NE(
      test::message_of([&] { Store::create(directory.path("other.db")); }).find("another program"),
      std::string::npos);
  { Store::create(directory.path("new.db")); }
  {
    Database newer(directory.path("new.db"), Database::Mode::kReadWrite);
    newer.execute("PRAGMA user_version=99");
  }
  EXPECT_NE(test::message_of([&] { Store::open(directory.path("new.db")); }).find("version 99"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
