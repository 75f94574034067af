// Truncated prompts are reported wherever numbers depend on them.

#include "harness/store/truncation.h"

#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"
#include "tests/harness/run/small_world.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

/// Three dialogues of two turns with gold answers, so that prompts do not depend on the limit.
std::string manifest(const std::string& limit) {
  return R"({"name": "cut", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 3, "length": 300, "turns": 2}],
    "positions": ["begin", "end"], "methods": ["full", "streamingllm:budget=40"],
    "answers": "gold", "max_new_tokens": 2)" +
         limit + "}";
}

TEST(Truncation, CountsTokensRemovedFromEarlierTurns) {
  Truncation t;
  t.add(100, 0);
  t.add(60, 40);
  t.add(90, 10);
  EXPECT_EQ(t, (Truncation{3, 2, 100, 60}));
  EXPECT_EQ(describe(t), "2 of 3 prompts were cut, the longest from 100 to 60 tokens");
  Truncation other;
  other.add(500, 0);
  EXPECT_EQ(describe(other), "") << "a long prompt that is whole is no news";
  other.add(80, 25);
  const std::map<std::string, Truncation> by_cell = {{"a", t}, {"b", other}};
  Cell a, b;
  a.key = a.method = "a";
  b.key = b.method = "b";
  EXPECT_EQ(total({a, b}, by_cell), (Truncation{3, 2, 105, 80})) << "methods have the same prompts";
  b.position = "end";
  EXPECT_EQ(total({a, b, b}, by_cell), (Truncation{5, 3, 105, 80}));
}

class CutPrompts : public testing::Test {
 protected:
  Finished run(const std::string& limit, const std::string& db, Arguments more = {}) {
    more.insert(more.begin(),
                {"run", directory_.write("m.json", manifest(limit)), "--db", directory_.path(db)});
    return run_program(more);
  }
  Finished report(const std::string& db, const std::string& format) const {
    return run_program({"report", directory_.path(db), "--format", format});
  }
  TemporaryDirectory directory_;
};

// The lengths before truncation are those of a run without truncation.
TEST_F(CutPrompts, AppearInTheSummaryAndInEveryReport) {
  const Finished whole = run("", "whole.db"), cut = run(R"(, "max_prompt_tokens": 200)", "cut.db");
  ASSERT_EQ(whole.code + cut.code, 0) << whole.err << cut.err;
  const std::string lengths = "SELECT max(prompt_tokens) FROM record";
  const std::int64_t longest = count(directory_.path("whole.db"), lengths);
  ASSERT_GT(longest, 250);
  // Both turns of every dialogue, at two positions, the same for two methods; a turn has 100 tokens
  // at most.
  const std::string text =
      fmt::format("12 of 12 prompts were cut, the longest from {} to 2", longest);
  EXPECT_NE(cut.err.find("cut: " + text), std::string::npos) << cut.err;
  EXPECT_EQ(whole.err.find("were cut"), std::string::npos) << whole.err;
  EXPECT_EQ(run(R"(, "max_prompt_tokens": 200)", "cut.db", {"--quiet"}).err, "");
  for (const char* format : {"md", "csv", "html", "tex"}) {
    const Finished cut_report = report("cut.db", format), whole_report = report("whole.db", format);
    const bool is_csv = format == std::string_view("csv");
    EXPECT_NE((is_csv ? cut_report.err : cut_report.out).find(text), std::string::npos) << format;
    EXPECT_EQ((whole_report.out + whole_report.err).find("were cut"), std::string::npos) << format;
  }
  EXPECT_EQ(split(report("cut.db", "html").out, text).size(), 3u) << "the note and the card's";
  const Json cells = report("cut.db", "json").json()["cells"];
  ASSERT_EQ(cells.size(), 4u);
  for (const Json& cell : cells) {
    EXPECT_EQ(cell["truncation"]["prompts"], 6);
    EXPECT_EQ(cell["truncation"]["cut"], 6);
    EXPECT_EQ(cell["truncation"]["longest"], longest);
    EXPECT_LE(cell["truncation"]["cut_to"], 220) << "200 and the first answer";
  }
  const Json uncut = report("whole.db", "json").json();
  for (const Json& cell : uncut["cells"]) EXPECT_FALSE(cell.contains("truncation"));
}

// The counts are not part of a cell's key.
TEST_F(CutPrompts, DoNotChangeTheProtocol) {
  const std::string limit = R"(, "max_prompt_tokens": 200)";
  ASSERT_EQ(run(limit, "a.db", {"--limit", "1"}).code, 0);
  const Dump first = dump(directory_.path("a.db"));
  ASSERT_EQ(run(limit, "a.db").code, 0);
  EXPECT_EQ(dump(directory_.path("a.db")).at("cell"), first.at("cell"));
  EXPECT_NE(report("a.db", "md").out.find("12 of 12 prompts were cut"), std::string::npos);
}

TEST(PromptLimit, IsAtMostTheModelsPositions) {
  const Malformed cases[] = {
      {"beyond tiny's positions",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"run", d.write("m.json", manifest(R"(, "max_prompt_tokens": 8193)")), "--db",
                 d.path("s.db")};
       },
       "m.json: /max_prompt_tokens: found 8193, expected at most the 8192 positions of tiny"},
  };
  expect_refusals(cases);
  const TemporaryDirectory d;
  for (const char* limit :
       {R"(, "max_prompt_tokens": 8192)", R"(, "max_prompt_tokens": 9000, "alone": true)"}) {
    const Finished plan = run_program({"plan", d.write("m.json", manifest(limit))});
    EXPECT_EQ(plan.code, 0) << plan.err;
  }
}

TEST(PromptLimit, PlanNamesUnitsThatWillFail) {
  const TemporaryDirectory d;
  const std::string path = d.write("m.json", manifest(R"(, "max_prompt_tokens": 20)"));
  const Json plan = run_program({"plan", path, "--no-measure", "--json"}).json();
  EXPECT_GT(plan["units"], 0);
  EXPECT_EQ(plan["refused_units"], plan["units"]);
  const Finished text = run_program({"plan", path, "--no-measure"});
  const std::string reason = "tokens of instruction, question and markup in turn 1 of ";
  EXPECT_NE(text.out.find(reason), std::string::npos) << text.out;
  const Finished run = run_program({"run", path, "--db", d.path("s.db")});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.err.find(reason), std::string::npos) << run.err;
  const Json fits =
      run_program({"plan", d.write("n.json", manifest("")), "--no-measure", "--json"}).json();
  EXPECT_EQ(fits["refused_units"], 0);
}

TEST(PromptLimit, PlanNamesProbesThatWillFail) {
  const TemporaryDirectory d;
  const auto plan = [&](const char* limit) {
    return run_program({"plan",
                        d.write("m.json", fmt::format(R"({{"name": "m", "models": ["tiny"],
      "datasets": [{{"name": "tiny-fact", "limit": 2, "length": 120}}], "probes": ["coverage"],
      "max_prompt_tokens": {}}})",
                                                      limit)),
                        "--no-measure", "--json"});
  };
  const Finished refused = plan("16");
  ASSERT_EQ(refused.code, 0) << refused.err;
  EXPECT_EQ(refused.json()["refused_units"], refused.json()["units"]);
  EXPECT_EQ(plan("4000").json()["refused_units"], 0);
}

/// A dialogue whose second question alone is too long for its share.
std::vector<Dialogue> with_a_long_question() {
  std::vector<Dialogue> out =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 2, .length = 300, .count = 2, .seed = 3});
  std::string& question = out[1].turns[1].question;
  for (int i = 0; i < 6; ++i) question += " " + question;
  return out;
}

TEST(PromptLimit, DialogueThatCannotBeCutFailsAlone) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = with_a_long_question();
  Cells cells;
  cells.add("full");
  cells.add("snapkv:budget=24,window=4");
  const Decoding decoding{.max_prompt_tokens = 240, .max_new_tokens = 2};
  const UnitResult together =
      world.run({{&dialogues[0], cells.cells}, {&dialogues[1], cells.cells}}, decoding);
  const UnitResult good = world.run({{&dialogues[0], cells.cells}}, decoding);
  EXPECT_EQ(together.prefilled_tokens, good.prefilled_tokens) << "the long one costs nothing";
  auto want = by_key(good.records);
  ASSERT_EQ(together.records.size(), 2 * want.size());
  for (const auto& [key, result] : by_key(together.records)) {
    if (want.contains(key)) {
      EXPECT_TRUE(result == want.at(key));
      EXPECT_LE(result.prompt_tokens, 240 + 30) << "and one answer";
      EXPECT_GT(result.truncated_tokens, 0);
      continue;
    }
    EXPECT_EQ(result.status, Record::Status::kError);
    EXPECT_NE(result.error.find("tokens of instruction, question and markup in turn 2 of " +
                                dialogues[1].id + ", expected at most 120"),
              std::string::npos)
        << result.error;
  }
}

TEST(PromptLimit, TurnsWithContextsShareWhatTheOthersLeave) {
  const SmallWorld world;
  std::vector<Dialogue> dialogues =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 3, .length = 900, .count = 1, .seed = 3});
  for (std::size_t t = 1; t < 3; ++t) dialogues[0].turns[t].contexts.clear();
  Cells cells;
  cells.add("full");
  constexpr int kLimit = 240;
  const UnitResult result = world.run({{&dialogues[0], {cells.cells.front()}}},
                                      {.max_prompt_tokens = kLimit, .max_new_tokens = 1});
  ASSERT_EQ(result.records.size(), 3u);
  const Record& first = result.records[0];
  EXPECT_GT(first.truncated_tokens, 0);
  EXPECT_GT(first.prompt_tokens, kLimit / 2);
  const Record& last = result.records[2];
  EXPECT_EQ(last.status, Record::Status::kOk) << last.error;
  EXPECT_EQ(last.truncated_tokens, 0);
  EXPECT_NEAR(last.prompt_tokens, kLimit, 5) << "with two answers of a token and their markup";
}

// Fewer tokens than turns are not the same as no limit.
TEST(PromptLimit, FewerTokensThanTurnsIsAnError) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = with_a_long_question();
  Cells cells;
  cells.add("full");
  const UnitResult result =
      world.run({{&dialogues[0], cells.cells}}, {.max_prompt_tokens = 1, .max_new_tokens = 2});
  ASSERT_FALSE(result.records.empty());
  for (const Record& record : result.records) EXPECT_EQ(record.status, Record::Status::kError);
}

}  // namespace
}  // namespace turnbench::test
