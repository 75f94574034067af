// `forget` removes results with all data that refers to them, `run` computes them again, and
// nothing else changes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/store/store.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

class Forget : public testing::Test {
 protected:
  Finished run(const std::string& name, const std::string& methods, const std::string& db) {
    const std::string manifest = fmt::format(
        R"({{"name": "{}", "models": ["tiny"], "datasets": [{{"name": "tiny-fact", "limit": 2,
            "length": 120, "turns": 2}}], "methods": [{}], "max_new_tokens": 4}})",
        name, methods);
    const Finished out =
        run_program({"run", directory_.write(name + ".json", manifest), "--db", db, "--quiet"});
    EXPECT_EQ(out.code, 0) << out.err;
    return out;
  }
  Finished forget(Arguments more) const {
    more.insert(more.begin(), {"forget", db_});
    return run_program(more);
  }
  std::int64_t records(const std::string& like) const {
    return count(db_, "SELECT count(*) FROM record JOIN cell ON key = cell WHERE method LIKE '" +
                          like + "'");
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db");
};

constexpr const char* kThree =
    R"("full", "snapkv:budget=32,window=8", "snapkv:budget=64,window=8")";

TEST_F(Forget, NameDeletesEverySettingAndRunRecomputesThem) {
  const std::string table = run("e", kThree, db_).out;
  const Dump before = dump(db_);
  {  // answers that are judged
    Store store = Store::open_to_write(db_);
    store.add_judge({"j", "rubric", "hash", "text", "model"});
    for (const ScoredTurn& turn : store.scores("e"))
      store.add_judgement({turn.cell, turn.dialogue, turn.turn, "j", 0, "", {}, "", "", {}});
  }
  const Dump judged = dump(db_);
  const Finished dry = forget({"--method", "snapkv", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_EQ(dry.out,
            "e: snapkv:budget=32,window=8: 4 records in 1 cells, 4 scores, 4 judgements\n"
            "e: snapkv:budget=64,window=8: 4 records in 1 cells, 4 scores, 4 judgements\n"
            "8 records would be forgotten; nothing was changed\n");
  expect_same(dump(db_), judged);
  const Json json = forget({"--method", "snapkv", "--json"}).json();
  EXPECT_EQ(json["records"], 8);
  EXPECT_EQ(json["results"][1]["judgements"], 4);
  EXPECT_EQ(records("snapkv%"), 0);
  EXPECT_EQ(records("full"), 4);
  for (const char* what : {"score", "counter", "timing", "judgement"}) {
    EXPECT_EQ(count(db_, fmt::format("SELECT count(*) FROM {} WHERE cell NOT IN (SELECT cell FROM "
                                     "record)",
                                     what)),
              0)
        << what;
  }
  EXPECT_EQ(count(db_, "SELECT count(*) FROM judgement"), 4);
  EXPECT_EQ(run_program({"status", db_, "--json"}).json()[0]["pending"], 4) << "not a hole";
  EXPECT_EQ(run("e", kThree, db_).out, table);
  Dump after = dump(db_);
  after["judge"] = before.at("judge");
  after["judgement"] = before.at("judgement");
  expect_same(after, before);
}

// A label of one experiment names cells that another experiment has under another label.
TEST_F(Forget, NamesEveryExperimentThatLosesResults) {
  run("e", kThree, db_);
  run("f", R"("full", {"label": "wide", "method": "snapkv:budget=64,window=8"})", db_);
  EXPECT_EQ(forget({"--method", "wide", "--dry-run"}).out,
            "e: snapkv:budget=64,window=8: 4 records in 1 cells, 4 scores, 0 judgements\n"
            "f: wide: 4 records in 1 cells, 4 scores, 0 judgements\n"
            "4 records would be forgotten; nothing was changed\n");
}

TEST_F(Forget, ShrinksTheFile) {
  run("e", kThree, db_);
  // Answers of a large store, for a method that is removed.
  execute(db_,
          "UPDATE record SET answer = hex(zeroblob(200000)) WHERE cell IN (SELECT key FROM "
          "cell WHERE method LIKE 'snapkv%')");
  const auto before = std::filesystem::file_size(db_);
  ASSERT_GT(before, 8 * 400'000u);
  const Finished done = forget({"--method", "snapkv"});
  EXPECT_EQ(done.code, 0);
  EXPECT_LT(std::filesystem::file_size(db_), before / 4);
  EXPECT_NE(done.err.find(fmt::format("{} KiB before\n", before >> 10)), std::string::npos)
      << done.err;
  EXPECT_EQ(forget({"--method", "full", "--quiet"}).err, "");
}

TEST_F(Forget, DeletesASingleSetting) {
  run("e", kThree, db_);
  EXPECT_EQ(forget({"--method", "snapkv:window=8,budget=64"}).code, 0) << "as a method is written";
  EXPECT_EQ(records("snapkv%"), 4);
  EXPECT_EQ(forget({"--method", "snapkv:budget=32,window=8"}).code, 0);
  EXPECT_EQ(records("snapkv%"), 0);
  EXPECT_EQ(records("full"), 4);
}

// An experiment is removed with its plan; the result equals a store that never contained it.
TEST_F(Forget, ExperimentKeepsSharedCells) {
  const std::string alone = directory_.path("alone.db");
  run("a", R"("full", "snapkv:budget=32,window=8")", alone);
  run("a", R"("full", "snapkv:budget=32,window=8")", db_);
  run("b", R"("full", "streamingllm:budget=32")", db_);
  const Finished done = forget({"--experiment", "b"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out,
            "b: streamingllm:budget=32: 4 records in 1 cells, 4 scores, 0 judgements\n"
            "1 cells are kept: other experiments share them\n4 records forgotten\n");
  expect_same(dump(db_), dump(alone));
  EXPECT_EQ(forget({"--experiment", "a"}).code, 0);
  for (const auto& [table, rows] : dump(db_)) {
    EXPECT_EQ(rows.empty(), table != "environment") << table;
  }
  EXPECT_EQ(run("a", R"("full", "snapkv:budget=32,window=8")", db_).code, 0);
  expect_same(dump(db_), dump(alone));
}

TEST_F(Forget, MethodIsDeletedFromEveryExperiment) {
  run("a", R"("full")", db_);
  run("b", R"("full", "streamingllm:budget=32")", db_);
  const Json json = forget({"--method", "full", "--json"}).json();
  EXPECT_EQ(json["records"], 4) << "they share them";
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][0]["experiment"], "a");
  EXPECT_EQ(json["results"][1]["records"], 4);
  EXPECT_EQ(records("full"), 0);
}

// No manifest plans imported results: they are not pending.
TEST_F(Forget, ImportedPredictionsAreNotPlannedAgain) {
  const std::string table = run("e", R"("full")", db_).out;
  const std::string first = run_program({"answers", db_}).lines().at(0),
                    id = parse_json(first, "a line")["dialogue"];
  const std::string file = directory_.write(
      "p.jsonl", Json{{"dialogue", id}, {"turn", 1}, {"answer", "x"}}.dump() + "\n");
  const Finished import = run_program(
      {"import-predictions", file, "--db", db_, "--label", "mine", "--experiment", "e"});
  ASSERT_EQ(import.code, 0) << import.err;
  EXPECT_NE(import.out.find("imported:mine"), std::string::npos);
  EXPECT_EQ(forget({"--method", "imported:mine"}).code, 0);
  EXPECT_EQ(run_program({"report", db_}).out, table);
}

TEST_F(Forget, DeletesProbesByName) {
  const std::string manifest = directory_.write("p.json", R"({"name": "p", "models": ["tiny"],
      "datasets": [{"name": "tiny-fact", "limit": 2, "length": 100, "turns": 1}],
      "probes": ["coverage:eta=0.1", "coverage:eta=0.2", "token-overlap:window=8"], "max_new_tokens": 4})");
  ASSERT_EQ(run_program({"run", manifest, "--db", db_}).code, 0);
  EXPECT_EQ(forget({"--method", "token-overlap:window=8"}).code, 0);
  EXPECT_EQ(records("probe token-overlap%"), 0);
  EXPECT_EQ(records("probe coverage%"), 4);
  EXPECT_EQ(forget({"--method", "coverage"}).code, 0);
  EXPECT_EQ(records("%"), 0);
}

TEST(ForgetCommand, Refusals) {
  const auto forget = [](Arguments more) {
    return [more](const TemporaryDirectory& d) {
      Arguments out = {"forget", d.write("s.db", small_store())};
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  };
  const Malformed cases[] = {
      {"nothing named", forget({}), "forget: found no --method and no --experiment"},
      {"both", forget({"--method", "full", "--experiment", "small"}), "expected only one of them"},
      {"a method that is not there", forget({"--method", "h2o"}),
       "s.db: found no results of \"h2o\", expected one of: full, snapkv:budget=64,window=8"},
      {"another setting", forget({"--method", "snapkv:budget=65,window=8"}),
       "expected \"snapkv:budget=64,window=8\""},
      {"an experiment that is not there", forget({"--experiment", "big"}),
       "found no experiment \"big\", expected one of: small"},
      {"no store",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"forget", d.path("x.db"), "--method", "full"};
       },
       "x.db: found no such file"},
      {"forgotten already",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string file = d.write("s.db", small_store());
         EXPECT_EQ(run_program({"forget", file, "--method", "full"}).code, 0);
         return {"forget", file, "--method", "full"};
       },
       "found no results of \"full\", expected one of: snapkv:budget=64,window=8"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
