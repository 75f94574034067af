// The file defines the positions of its questions, unless a manifest specifies others.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// Two dialogues of one turn; the fields of `turns` are added to these turns.
std::string two_questions(const std::vector<Json>& turns) {
  std::string out;
  for (const Json& more : turns) {
    Json line = {{"context", {"the color of alice is red.", "the color of bob is blue."}},
                 {"question", "what is the color of alice?"},
                 {"references", "red"}};
    line.update(more);
    out += line.dump() + "\n";
  }
  return out;
}

class OwnPositions : public testing::Test {
 protected:
  Json manifest(const std::vector<Json>& turns) const {
    directory_.write("own.jsonl", two_questions(turns));
    return {{"name", "m"},
            {"models", {"tiny"}},
            {"datasets", {{{"name", "jsonl"}, {"source", "own.jsonl"}}, "tiny-fact"}},
            {"methods", {"full"}}};
  }
  Finished dialogues(const Json& manifest, const Arguments& more = {}) const {
    Arguments all = {"dialogues", directory_.write("m.json", manifest.dump()), "--dataset",
                     "jsonl"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }

  TemporaryDirectory directory_;
};

std::vector<std::string> positions_of(const Finished& printed) {
  std::vector<std::string> out;
  for (const std::string& line : printed.lines()) {
    const Json json = parse_json(line, "stdout");
    const std::string at = json["turns"][0]["position"];
    EXPECT_TRUE(json["id"].get<std::string>().ends_with(":" + at));
    out.push_back(at);
  }
  return out;
}

TEST_F(OwnPositions, AreKeptInDialogues) {
  const Json own = manifest({{{"position", "begin"}}, {{"position", "begin"}}});
  EXPECT_EQ(positions_of(dialogues(own)), (std::vector<std::string>{"begin", "begin"}));
  EXPECT_EQ(positions_of(dialogues(own, {"--positions", "middle"})),
            (std::vector<std::string>{"middle", "middle"}));
  EXPECT_EQ(positions_of(run_program(
                {"dialogues", "--dataset", "jsonl", "--source", directory_.path("own.jsonl")})),
            (std::vector<std::string>{"begin", "begin"}));
  const Finished plan = run_program({"plan", directory_.path("m.json"), "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  Json given = own;
  given["positions"] = {"end"};
  EXPECT_EQ(positions_of(dialogues(given)), (std::vector<std::string>{"end", "end"}));
}

TEST_F(OwnPositions, AreThePositionsOfCells) {
  Json own = manifest({{{"position", "begin"}}});
  own["max_new_tokens"] = 2;
  own["datasets"][1] = {{"name", "tiny-fact"}, {"limit", 1}, {"turns", 1}, {"length", 200}};
  const std::string db = directory_.path("own.db");
  const Finished run = run_program({"run", directory_.write("m.json", own.dump()), "--db", db});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json cells = run_program({"report", db, "--json"}).json()["cells"];
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0]["position"], "begin");
  EXPECT_EQ(cells[1]["position"], "end") << "of a dataset that says nothing";
  // Imported results are shown next to them.
  const std::string answers =
      directory_.write("a.jsonl", R"({"dialogue": "000001", "answer": "red"})"
                                  "\n");
  for (const Arguments& target :
       {Arguments{"--manifest", directory_.path("m.json")}, Arguments{"--experiment", "m"}}) {
    const Finished imported =
        run_program({"import-predictions", answers, "--db", db, "--label", target[0].substr(2),
                     "--dataset", "jsonl", "--json", target[0], target[1]});
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_EQ(imported.json()["cells"].back()["position"], "begin");
  }
}

TEST_F(OwnPositions, MustBeEqualInADataset) {
  const Json own = manifest({{{"position", "begin"}}, Json::object()});
  const Finished refused = dialogues(own);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("dataset jsonl: found questions at several positions, expected one"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(positions_of(dialogues(own, {"--positions", "end"})),
            (std::vector<std::string>{"end", "end"}));
  Json given = own;
  given["positions"] = {"end"};
  EXPECT_EQ(positions_of(dialogues(given)), (std::vector<std::string>{"end", "end"}));
}

}  // namespace
}  // namespace turnbench::test
