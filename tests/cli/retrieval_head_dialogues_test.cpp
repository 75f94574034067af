// method specontext dialogues: the model's own answers as training data.

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

Arguments action(const std::string& file, Arguments more = {}) {
  Arguments out = {"method",    "specontext", "dialogues", "--model",  "tiny", "--dataset",
                   "tiny-fact", "--turns",    "2",         "--length", "120",  "--limit",
                   "2",         "--threads",  "1",         "-o",       file};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(RetrievalHeadDialogues, EndWithTheAnswersOfGenerate) {
  const TemporaryDirectory directory;
  const std::string file = directory.path("d.jsonl");
  const Json summary = run_program(action(file, {"--json"})).json();
  EXPECT_EQ(summary["dialogues"], 2);
  EXPECT_EQ(summary["too_long"], 0);
  std::ifstream lines(file);
  std::size_t dialogues = 0, tokens = 0, answer_tokens = 0;
  for (std::string line; std::getline(lines, line); ++dialogues) {
    const Json dialogue = Json::parse(line);
    const auto ids = dialogue["ids"].get<std::vector<int>>();
    const Json& spans = dialogue["spans"];
    ASSERT_EQ(spans.size(), 2u) << "one for each turn";
    for (const Json& span : spans)
      answer_tokens += span["end"].get<std::size_t>() - span["begin"].get<std::size_t>();
    tokens += ids.size();
    const auto begin = spans[1]["begin"].get<std::size_t>(),
               end = spans[1]["end"].get<std::size_t>();
    ASSERT_EQ(end + 1, ids.size()) << "the stop token is the last one";
    std::ostringstream prompt;
    for (std::size_t i = 0; i < begin; ++i) prompt << (i > 0 ? "," : "") << ids[i];
    const Json generated =
        run_program({"generate", "--model", "tiny", "--ids", prompt.str(), "--method", "full",
                     "--max-tokens", "32", "--threads", "1", "--json"})
            .json();
    EXPECT_EQ(generated["ids"],
              Json(std::vector<int>(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                    ids.begin() + static_cast<std::ptrdiff_t>(end))));
  }
  EXPECT_EQ(dialogues, 2u);
  EXPECT_EQ(summary["tokens"], tokens);
  EXPECT_EQ(summary["answer_tokens"], answer_tokens);
}

TEST(RetrievalHeadDialogues, CutsAnswersAtTheirLimit) {
  const TemporaryDirectory directory;
  const std::string file = directory.path("d.jsonl");
  ASSERT_EQ(run_program(action(file, {"--answer-tokens", "1"})).code, 0);
  std::ifstream lines(file);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json dialogue = Json::parse(line);
  EXPECT_EQ(dialogue["spans"][1]["end"], dialogue["ids"].size());
  EXPECT_EQ(dialogue["spans"][1]["begin"], dialogue["ids"].size() - 1);
}

TEST(RetrievalHeadDialogues, RefusesADatasetOfTooLongDialogues) {
  const TemporaryDirectory directory;
  const Finished got = run_program(action(directory.path("d.jsonl"), {"--longest", "100"}));
  EXPECT_EQ(got.code, 2);
  EXPECT_NE(got.err.find("tiny-fact: found 2 dialogues, all too long, expected one of at most 100"),
            std::string::npos)
      << got.err;
}

}  // namespace
}  // namespace turnbench::test
