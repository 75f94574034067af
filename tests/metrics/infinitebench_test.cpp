#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "metrics/score_file.h"
#include "metrics/scorers.h"

namespace turnbench {
namespace {

using Texts = std::vector<std::string>;

TEST(InfiniteBench, KeysAndNumbers) {
  using namespace scorers;
  EXPECT_EQ(infinitebench_first_number("The key is 71432.", Texts{"71432"}), 1.0);
  EXPECT_EQ(infinitebench_first_number("1 or 71432", Texts{"71432"}), 0.0);
  EXPECT_EQ(infinitebench_kv_retrieval("it is \"ab-1\".", Texts{"ab-1"}), 1.0);
  EXPECT_EQ(infinitebench_kv_retrieval("it is xab-1", Texts{"ab-1"}), 0.0);
  EXPECT_EQ(scbench_kv("it is xab-1", Texts{"ab-1"}), 1.0);
  EXPECT_THROW(scbench_kv("x", {}), Error);
}

TEST(InfiniteBench, Names) {
  using namespace scorers;
  const Texts labels = {"ACE", "ACE ROTHSTEIN"};
  EXPECT_EQ(infinitebench_dialogue_qa("Ace, maybe", labels), 1.0);
  EXPECT_EQ(infinitebench_dialogue_qa("Aceman", labels), 0.0);
  EXPECT_EQ(scbench_qa("an Aceman", labels), 1.0);
  EXPECT_EQ(scbench_qa("it is STRASSE", Texts{"Straße"}), 1.0);
}

TEST(InfiniteBench, Choice) {
  using scorers::infinitebench_choice;
  const Texts labels = {"Hall Farm", "C"};
  EXPECT_EQ(infinitebench_choice(" C. anything", labels), 1.0);
  EXPECT_EQ(infinitebench_choice("Definitely C", labels), 0.0);  // D
  EXPECT_EQ(infinitebench_choice("Hall Farm", labels), 1.0);
  EXPECT_EQ(infinitebench_choice("The answer is: Hall Farm", labels), 1.0);
  EXPECT_EQ(infinitebench_choice("The answer is:C", labels), 0.0);  // one character is skipped
  EXPECT_EQ(infinitebench_choice("The answer is:", labels), 0.0);
  EXPECT_EQ(infinitebench_choice("I choose C", labels), 1.0);
  EXPECT_EQ(infinitebench_choice("I choose BC or C", labels), 0.0);  // BC comes first
  EXPECT_EQ(infinitebench_choice("", labels), 0.0);
}

TEST(InfiniteBench, Mathematics) {
  using namespace scorers;
  EXPECT_EQ(infinitebench_math_find("it is 88.", Texts{"88"}), 1.0);
  EXPECT_EQ(infinitebench_math_find("it is 88.0", Texts{"88"}), 0.0);
  EXPECT_EQ(scbench_math_find("it is 88.9", Texts{"88"}), 1.0);
  EXPECT_EQ(scbench_math_find(std::string(400, '9'), Texts{"88"}), 0.0);
  EXPECT_EQ(infinitebench_math_find("2.50", Texts{"2.5"}), 1.0);
  EXPECT_THROW(infinitebench_math_find("1", Texts{"one"}), Error);
  EXPECT_EQ(infinitebench_math_calc("[1, 02, 4]", Texts{"1", "2", "3", "4"}), 0.5);
  EXPECT_EQ(infinitebench_math_calc("", Texts{"1"}), 0.0);
}

TEST(InfiniteBench, Code) {
  using namespace scorers;
  EXPECT_EQ(infinitebench_code_run("so\nfunc(2) = `-4`.", Texts{"-4"}), 1.0);
  EXPECT_EQ(infinitebench_code_run("4 it is", Texts{"4"}), 0.0);
  const Texts labels = {"_parser", "D"};
  EXPECT_EQ(infinitebench_code_debug("D. x", labels), 1.0);
  EXPECT_EQ(infinitebench_code_debug("The correct answer is:\n\nD. x", labels), 1.0);
  EXPECT_EQ(infinitebench_code_debug("the error is: `_parser`", labels), 1.0);
  EXPECT_EQ(infinitebench_code_debug("the answer is: Option D", labels), 1.0);
  EXPECT_EQ(infinitebench_code_debug("it is: A, the answer: D", labels), 0.0);
  EXPECT_EQ(infinitebench_code_debug("D", labels), 0.0);
}

TEST(ScBench, VariableTrackingIsRounded) {
  EXPECT_EQ(scorers::scbench_vt("x Y", Texts{"X", "y", "z"}), 0.67);
  EXPECT_EQ(scorers::ruler_match_all("x Y", Texts{"X", "y", "z"}), 2.0 / 3);
}

TEST(InfiniteBench, PublishedPredictionsScoreAsTheOfficialRulesSay) {
  const std::filesystem::path folder =
      TURNBENCH_SOURCE_DIR "/../shared/data/infinitebench/predictions/gpt4";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  // Means of the first 40 published lines, from an independent Python implementation of the rules.
  const std::pair<const char*, double> kExpected[] = {{"code_debug", 17.5},
                                                      {"code_run", 70},
                                                      {"kv_retrieval", 97.5},
                                                      {"longbook_choice_eng", 72.5},
                                                      {"longbook_qa_chn", 25.13},
                                                      {"longbook_qa_eng", 20.99},
                                                      {"longbook_sum_eng", 12.66},
                                                      {"longdialogue_qa_eng", 10},
                                                      {"math_find", 100},
                                                      {"number_string", 100},
                                                      {"passkey", 100}};
  for (const auto& [task, mean] : kExpected) {
    const FileScores scores = score_file(folder / (std::string("preds_") + task + ".jsonl"),
                                         {.metric = std::string("infinitebench_") + task});
    EXPECT_EQ(scores.lines.size(), 40u) << task;
    EXPECT_EQ(scores.mean, mean) << task;
  }
}

}  // namespace
}  // namespace turnbench
