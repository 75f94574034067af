// `leaderboard` on stores of real runs.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "common/text.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

class LeaderboardCommand : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const std::string db_ = directory_.write("s.db", small_store());
};

TEST_F(LeaderboardCommand, PrintsTheMethodsOfAStore) {
  const Finished text = run_program({"leaderboard", db_});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("# Leaderboard\n\n**tiny**\n\n| rank | method | score | begin"))
      << text.out;
  EXPECT_EQ(text.err, "");
  const Json json = run_program({"leaderboard", db_, "--json"}).json();
  const Json& board = json["leaderboards"][0];
  EXPECT_EQ(board["methods"].size(), 2u);
  // The means of the table of the report.
  const Json report = run_program({"report", db_, "--format", "json"}).json();
  for (const Json& row : board["methods"]) {
    double sum = 0;
    for (const Json& cell : report["cells"]) {
      if (cell["method"] == row["method"]) sum += cell["mean"].get<double>();
    }
    EXPECT_NEAR(row["mean"].get<double>(), sum / 2, 1e-9) << "two positions";
    EXPECT_EQ(row["n"], 2);
    EXPECT_EQ(row["turns"], 8);
  }
}

// They have answers, but no score.
TEST_F(LeaderboardCommand, DialoguesWithoutReferencesAreNotPartial) {
  directory_.write("d.jsonl", R"({"question": "Who?", "references": "Ann"})"
                              "\n"
                              R"({"question": "Where?", "references": ""})");
  const std::string manifest = directory_.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "jsonl", "source": "d.jsonl"}], "max_new_tokens": 2,
    "methods": ["full", "streamingllm:budget=16"]})");
  const std::string db = directory_.path("m.db");
  ASSERT_EQ(run_program({"run", manifest, "--db", db}).code, 0);
  const std::string out = run_program({"leaderboard", db}).out;
  EXPECT_NE(out.find("1 dialogue"), std::string::npos) << out;
  EXPECT_EQ(out.find("Partial"), std::string::npos) << out;
  ASSERT_EQ(run_program({"run", manifest, "--db", directory_.path("p.db"), "--limit", "1"}).code,
            0);
  EXPECT_NE(run_program({"leaderboard", directory_.path("p.db")})
                .out.find("Partial: jsonl 1 of 2 dialogues with a result."),
            std::string::npos);
}

TEST_F(LeaderboardCommand, JoinsStoresAndNamesTheDifference) {
  const std::string copy = directory_.write("copy.db", small_store());
  const std::string one = run_program({"leaderboard", db_, "--json"}).out;
  EXPECT_EQ(run_program({"leaderboard", db_, copy, "--json"}).out, one);
  execute(copy, "UPDATE record SET answer = 'x' WHERE turn = 1");
  const Finished refused = run_program({"leaderboard", db_, copy});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("found different answers of tiny, tiny-fact, begin, full, dialogue "),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("turn 2, expected equal results of a cell in all stores"),
            std::string::npos)
      << refused.err;
}

TEST_F(LeaderboardCommand, ReplacesOnlyItsOwnFiles) {
  for (const char* name : {"a.md", "a.csv", "a.json"}) {
    const std::string file = directory_.path(name);
    const std::string format = std::filesystem::path(name).extension().string().substr(1);
    const Arguments write = {"leaderboard", db_, "-o", file};  // the format of the ending
    EXPECT_EQ(run_program(write).code, 0) << name;
    EXPECT_EQ(run_program(write).code, 0) << name << " is replaced";
    EXPECT_EQ(read_file(file), run_program({"leaderboard", db_, "--format", format}).out);
    write_file(file, "my notes");
    EXPECT_EQ(run_program(write).code, 2) << name;
    EXPECT_EQ(read_file(file), "my notes");
  }
}

TEST(MalformedLeaderboard, IsRefusedInOneLine) {
  const Malformed cases[] = {
      {"no store", [](const TemporaryDirectory&) { return Arguments{"leaderboard"}; },
       "leaderboard: found no db, expected one"},
      {"missing store", with_small_store({"leaderboard", "other.db"}), "other.db"},
      {"the same store twice", with_small_store({"leaderboard", "DB", "DB"}),
       "twice, expected it once"},
      {"unknown format", with_small_store({"leaderboard", "DB", "--format", "tex"}),
       "expected one of: md, csv, json"},
      {"unknown model", with_small_store({"leaderboard", "DB", "--model", "tin"}),
       "--model: found \"tin\""},
      {"unknown metric", with_small_store({"leaderboard", "DB", "--metric", "bleu"}),
       "--metric: found \"bleu\""},
      {"postprocess alone", with_small_store({"leaderboard", "DB", "--postprocess", "none"}),
       "found no --metric"},
      {"store as output", with_small_store({"leaderboard", "DB", "-o", "DB"}),
       "expected another file"},
      {"output with the ending of a format that it does not have",
       with_small_store({"leaderboard", "DB", "-o", "ranks.html"}),
       "--output: found the ending \".html\", expected one of: .md, .csv, .json; or --format"},
      {"output with the ending of another format",
       with_small_store({"leaderboard", "DB", "--format", "md", "-o", "ranks.csv"}),
       "--output: found a name that ends with .csv and the format md, expected .md"},
      {"two formats", with_small_store({"leaderboard", "DB", "--json", "--format", "csv"}),
       "--json: found --format csv too"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
