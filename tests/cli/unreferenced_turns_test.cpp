// Turns without a reference have no score: not in the store, not in tables, not in means.

#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

/// Two dialogues of two turns each; `first` and `second` are the turns' references.
std::string two_dialogues(const std::string& first, const std::string& second) {
  std::string out;
  for (const char* id : {"a", "b"}) {
    out += Json{{"id", id},
                {"turns",
                 {{{"context", "the color of alice is red."},
                   {"question", "what is the color of alice?"},
                   {"references", {first}}},
                  {{"question", "what is the color of bob?"}, {"references", {second}}}}}}
               .dump() +
           "\n";
  }
  return out;
}

class UnreferencedTurns : public testing::Test {
 protected:
  UnreferencedTurns() {
    directory_.write("some.jsonl", two_dialogues("red", ""));
    directory_.write("none.jsonl", two_dialogues("", " \n"));
    const Finished run = run_manifest();
    EXPECT_EQ(run.code, 0) << run.err;
  }

  Finished run_manifest() {
    const Json dataset = {{"name", "jsonl"}, {"label", "some"}, {"source", "some.jsonl"}};
    Json other = dataset;
    other["label"] = "none";
    other["source"] = "none.jsonl";
    const Json manifest = {{"name", "m"},
                           {"models", {"tiny"}},
                           {"datasets", {dataset, other}},
                           {"methods", {"full", "streamingllm:budget=12"}},
                           {"max_new_tokens", 12},
                           {"tables",
                            {{{"title", "Mean"}, {"rows", {"method"}}, {"columns", {"position"}}},
                             {{"title", "Each"},
                              {"rows", {"method"}},
                              {"columns", {"dataset"}},
                              {"difference_to", "full"}},
                             {{"title", "Turns"}, {"rows", {"turn"}}, {"columns", {"dataset"}}}}}};
    return run_program({"run", directory_.write("m.json", manifest.dump()), "--db", db_});
  }

  /// Zeros for all turns without a reference, as in stores of older versions.
  void add_zeros() {
    execute(db_,
            "INSERT INTO score SELECT r.cell, r.dialogue, r.turn, c.metric, c.postprocess, 0, "
            "'older' FROM record r JOIN cell c ON c.key = r.cell WHERE NOT EXISTS (SELECT 1 FROM "
            "score s WHERE s.cell = r.cell AND s.dialogue = r.dialogue AND s.turn = r.turn)");
    ASSERT_EQ(count(db_, "SELECT count(*) FROM score WHERE sources = 'older'"), 12);
  }

  /// The tables are the same with and without older scores in the store.
  void expect_tables() const {
    const Json json = run_program({"report", db_, "--json"}).json();
    ASSERT_EQ(json["cells"].size(), 4u);
    std::map<std::string, double> means;  // of the dataset that has references, by method
    for (const Json& cell : json["cells"]) {
      const bool some = cell["dataset"] == "some";
      EXPECT_EQ(cell["mean"].is_null(), !some) << cell;
      EXPECT_EQ(cell["turns"], some ? 2 : 0);
      EXPECT_EQ(cell["without_reference"], some ? 2 : 4);
      if (some) means[cell["method"]] = cell["mean"].get<double>();
    }
    for (const Json& entry : json["tables"][0]["entries"])
      EXPECT_EQ(entry["mean"], means.at(entry["row"][0])) << "the other dataset is not in it";
    ASSERT_EQ(json["tables"][1]["entries"].size(), 2u) << "blank where there is nothing to score";
    for (const Json& entry : json["tables"][1]["entries"])
      EXPECT_EQ(entry["column"], Json::array({"some"}));
    ASSERT_EQ(json["tables"][2]["entries"].size(), 1u);
    EXPECT_EQ(json["tables"][2]["entries"][0]["row"], Json::array({"1"}));
    EXPECT_EQ(json["tables"][2]["entries"][0]["column"], Json::array({"some"}));
    const std::string note = "Turns without a reference have no score: some 2 of 4, none 4 of 4.";
    for (const char* format : {"md", "html", "tex"}) {
      const std::string text = run_program({"report", db_, "--format", format}).out;
      EXPECT_NE(text.find(note), std::string::npos) << format;
      EXPECT_EQ(text.find("No mean"), std::string::npos) << format;
    }
    const std::string md = run_program({"report", db_}).out;
    EXPECT_NE(md.find("\n| streamingllm | "), std::string::npos) << md;
    EXPECT_NE(md.find(" |  | 12 | 13 | 1.00 |\n"), std::string::npos) << md;
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db");
};

TEST_F(UnreferencedTurns, HaveNoScore) {
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record WHERE status = 'ok'"), 16);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 4);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score WHERE turn = 1"), 0);
  expect_tables();
  for (const std::string& line : run_program({"answers", db_}).lines()) {
    const Json turn = parse_json(line, "a line");
    const bool scored = turn["dataset"] == "some" && turn["turn"] == 1;
    for (const Json& answer : turn["answers"]) {
      EXPECT_EQ(answer["score"].is_null(), !scored) << line;
      EXPECT_EQ(answer["status"], "ok");
    }
  }
}

TEST_F(UnreferencedTurns, AreNotRunAgain) {
  const Finished again = run_manifest();
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("m: 0 units done"), std::string::npos) << again.err;
  EXPECT_EQ(again.err.find("sources"), std::string::npos) << again.err;
  EXPECT_EQ(run_program({"status", db_, "--json"}).json()[0]["pending"], 0);
}

TEST_F(UnreferencedTurns, HidesScoresThatOlderProgramsStored) {
  add_zeros();
  expect_tables();
  for (const std::string& line : run_program({"answers", db_, "--where", "score<50"}).lines())
    EXPECT_NE(line.find("\"dataset\":\"some\""), std::string::npos) << line;
}

TEST_F(UnreferencedTurns, LoseOldScoresWhenTheyAreRescored) {
  add_zeros();
  const Finished scored = run_program({"score", db_});
  EXPECT_EQ(scored.code, 0) << scored.err;
  EXPECT_NE(scored.out.find("0 new, 0 as stored, 4 deleted: no reference\n"), std::string::npos)
      << scored.out;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 4);
  add_zeros();
  EXPECT_EQ(run_manifest().code, 0);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 4);
  EXPECT_EQ(run_program({"score", db_, "--metric", "rouge_l_recall"}).code, 0);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score WHERE metric = 'rouge_l_recall'"), 4);
}

TEST_F(UnreferencedTurns, HaveNoScoreInImportedPredictions) {
  std::string lines;
  for (const char* id : {"a", "b"}) {
    for (const int turn : {1, 2})
      lines += Json{{"dialogue", id}, {"turn", turn}, {"answer", ""}}.dump() + "\n";
  }
  const Finished import =
      run_program({"import-predictions", directory_.write("p.jsonl", lines), "--db", db_,
                   "--experiment", "m", "--dataset", "some", "--label", "theirs"});
  ASSERT_EQ(import.code, 0) << import.err;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 6);
  const Json json = run_program({"report", db_, "--json"}).json();
  EXPECT_EQ(json["cells"][4]["without_reference"], 2);
}

/// A dataset A, whose dialogues have references, beside B, where only some have one.
class PartlyReferenced : public testing::Test {
 protected:
  static std::string line(const std::string& id, const std::string& reference, int repeated = 1) {
    std::string question;
    for (int i = 0; i < repeated; ++i) question += "what is the color of alice? ";
    return Json{{"id", id},
                {"turns",
                 {{{"context", "the color of " + id + " is red."},
                   {"question", question},
                   {"references", {reference}}}}}}
               .dump() +
           "\n";
  }

  Finished run(const std::string& name, const std::vector<std::string>& datasets,
               const Arguments& options = {}) {
    Json manifest = {
        {"name", name},        {"models", {"tiny"}},
        {"methods", {"full"}}, {"max_prompt_tokens", 100},
        {"max_new_tokens", 4}, {"tables", {{{"rows", {"method"}}, {"columns", {"position"}}}}}};
    for (const std::string& dataset : datasets)
      manifest["datasets"].push_back(
          {{"name", "jsonl"}, {"label", dataset}, {"source", dataset + ".jsonl"}});
    Arguments words = {"run", directory_.write(name + ".json", manifest.dump()), "--db", db_};
    words.insert(words.end(), options.begin(), options.end());
    return run_program(words);
  }
  Json entry(const std::string& experiment, const Arguments& options = {}) {
    Arguments words = {"report", db_, "--json", "--experiment", experiment};
    words.insert(words.end(), options.begin(), options.end());
    return run_program(words).json()["tables"][0]["entries"][0];
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db");
};

TEST_F(PartlyReferenced, DatasetsAreMissingIfTheirReferencedTurnsFail) {
  directory_.write("A.jsonl", line("a", "red") + line("b", "red"));
  directory_.write("B.jsonl", line("c", "red", 30) + line("d", ""));
  EXPECT_EQ(run("m", {"A", "B"}).code, 1) << "the question of c is too long";
  const Json found = entry("m");
  EXPECT_TRUE(found["mean"].is_null()) << found;
  EXPECT_EQ(found["missing"], Json::array({"B (failed)"}));
  EXPECT_EQ(found["failed"], 1);
}

TEST_F(PartlyReferenced, DatasetsAreMissingIfTheirReferencedTurnsHaveNoScore) {
  directory_.write("A.jsonl", line("a", "red") + line("b", "red"));
  directory_.write("B.jsonl", line("c", "red") + line("d", ""));
  EXPECT_EQ(run("one", {"A"}).code, 0);
  EXPECT_EQ(run("both", {"A", "B"}).code, 0);
  EXPECT_EQ(run_program({"score", db_, "--metric", "exact_match", "--experiment", "one"}).code, 0);
  const Json found = entry("both", {"--metric", "exact_match"});
  EXPECT_TRUE(found["mean"].is_null()) << found;
  EXPECT_EQ(found["missing"], Json::array({"B (no value)"}));
}

}  // namespace
}  // namespace turnbench::test
