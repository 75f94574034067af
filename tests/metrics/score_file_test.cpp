#include "metrics/score_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

class ScoreFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() /
            (std::string("turnbench_score_") +
             testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
  }
  void TearDown() override { fs::remove(path_); }

  FileScores score(const std::string& content, const ScoreRequest& request) {
    write_file(path_, content);
    return score_file(path_, request);
  }
  /// The error message without the path at its beginning.
  std::string message(const std::string& content, const ScoreRequest& request) {
    try {
      score(content, request);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string text = error.what(), path = path_.string();
      return text.starts_with(path) ? text.substr(path.size()) : text;
    }
    return "";
  }

  fs::path path_;
};

TEST_F(ScoreFile, ReadsItsOwnFormat) {
  const FileScores scores = score(
      "{\"prediction\": \"paris\", \"references\": [\"Rome\", \"Paris\"], \"classes\": null}\n"
      "\n"
      "{\"id\": 3, \"prediction\": \"x\", \"references\": [\"y\"]}\n"
      "{\"prediction\": \"New York City\", \"references\": [\"York\"]}",
      {.metric = "qa_f1"});
  ASSERT_EQ(scores.lines.size(), 3u);
  EXPECT_EQ(scores.lines[0].score, 1.0);
  EXPECT_EQ(scores.lines[1].line, 3u);
  EXPECT_EQ(scores.lines[2].score, 0.5);
  EXPECT_EQ(scores.mean, 50.0);
  EXPECT_EQ(to_text(scores), "1\t1\n3\t0\n4\t0.5\nqa_f1\t50.00\tn=3\n");
  EXPECT_EQ(to_json(scores).dump(),
            "{\"metric\":\"qa_f1\",\"postprocess\":\"none\",\"n\":3,\"mean\":50.0,\"scores\":["
            "{\"line\":1,\"score\":1.0},{\"line\":3,\"score\":0.0},{\"line\":4,\"score\":0.5}]}");
}

TEST_F(ScoreFile, LongBenchClassesAreThoseOfTheLastLine) {
  const std::string first =
      "{\"pred\": \"\\nAB\\nC\", \"answers\": [\"AB\"], \"all_classes\": [\"AB\"], \"length\": "
      "10}\n";
  const std::string last =
      "{\"pred\": \"C\", \"answers\": [\"C\"], \"all_classes\": [\"B\", \"AB\", \"C\", \"D\", "
      "\"B\"], \"length\": 4000}\n";
  const FileScores scores = score(first + last, {.dataset = "trec_e"});
  EXPECT_EQ(scores.metric, "classification");
  EXPECT_EQ(scores.postprocess, "first_line");
  // The matched classes are B, AB, B.  The removal of the first B during the iteration skips AB,
  // which would stay anyway; the second B is then removed.
  EXPECT_EQ(scores.lines[0].score, 1.0);
  EXPECT_EQ(scores.lines[1].score, 1.0);
  ASSERT_EQ(scores.by_length.size(), 3u);
  EXPECT_EQ(scores.by_length[0].mean, 100.0);
  EXPECT_EQ(scores.by_length[1].count, 1u);
  EXPECT_TRUE(std::isnan(scores.by_length[2].mean));
  EXPECT_TRUE(to_json(scores)["by_length"]["8k+"]["mean"].is_null());
  EXPECT_TRUE(score(first + last, {.dataset = "trec"}).by_length.empty());
  EXPECT_EQ(message(first + "{\"pred\": \"A\", \"answers\": \"A\", \"classes\": [\"A\"]}",
                    {.dataset = "trec_e"}),
            ": line 2: found no length, expected one, as LongBench-E scores by it");
  // In the project's own format each line has its own classes.
  const FileScores own = score(
      "{\"prediction\": \"A B\", \"references\": [\"A\"], \"classes\": [\"A\"]}\n"
      "{\"prediction\": \"A B\", \"references\": [\"A\"], \"classes\": [\"A\", \"B\"]}\n",
      {.metric = "classification"});
  EXPECT_EQ(own.lines[0].score, 1.0);
  EXPECT_EQ(own.lines[1].score, 0.5);
}

TEST_F(ScoreFile, LabelsMayBeNumbersAndNestedLists) {
  const ScoreRequest request{.metric = "infinitebench_math_calc"};
  EXPECT_EQ(score("{\"prediction\": \"1 2 4\", \"ground_truth\": [[1, 2, 3, 4]]}", request).mean,
            50);
  EXPECT_EQ(score("{\"prediction\": \"8\", \"label\": 8}", {.metric = "scbench_mf"}).mean, 100);
  EXPECT_EQ(score("{\"prediction\": \"8\", \"label\": 8.0}", {.metric = "scbench_mf"}).mean, 100);
}

TEST_F(ScoreFile, ReportsRemarks) {
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += fmt::format("w{} ", i);
  const FileScores scores =
      score(fmt::format(R"({{"prediction": "{0}", "references": ["{0}"]}})", long_text),
            {.metric = "rouge"});
  EXPECT_EQ(scores.mean, 0.0);
  EXPECT_EQ(scores.lines[0].remark, "recursion_zero");
  EXPECT_EQ(to_json(scores)["scores"][0]["remark"], "recursion_zero");
  EXPECT_EQ(to_text(scores), "1\t0\trecursion_zero\nrouge\t0.00\tn=1\n");
}

TEST_F(ScoreFile, BadInputIsRefusedWithItsPlace) {
  const ScoreRequest request{.metric = "qa_f1"};
  EXPECT_EQ(message("\n \n", request), ": found no line, expected predictions");
  EXPECT_TRUE(message("{\"prediction\": \"a\"", request).starts_with(": line 1: "));
  EXPECT_EQ(message("[]", request), ": line 1: /: found an array of 0, expected an object");
  EXPECT_TRUE(message("{\"prediction\": \"a\"}", request)
                  .ends_with("expected one of the keys references, answers, ground_truth, label"));
  EXPECT_TRUE(message("{\"prediction\": 1, \"references\": []}", request)
                  .starts_with(": line 1: /prediction: found 1, "));
  EXPECT_TRUE(message("{\"prediction\": \"1\", \"references\": []}", request)
                  .ends_with("expected at least one reference"));
  EXPECT_TRUE(message("{\"prediction\": \"1\", \"references\": [[[\"a\"]]]}", request)
                  .ends_with("expected a string, a number or a list of them"));
  EXPECT_EQ(
      message("{\"pred\": \"a\", \"answers\": [\"a\"]}\n{\"pred\": \"1\", \"answers\": [\"b\"]}",
              {.metric = "retrieval"}),
      ": line 1: metric retrieval: found the reference \"a\", expected \"Paragraph \" and a "
      "number");
  EXPECT_EQ(message("{}", {}), "--metric: found none, expected a metric's name");
  EXPECT_EQ(message("{}", {.metric = "qa_f2"}),
            "--metric: found the metric \"qa_f2\", expected \"qa_f1\"");
  EXPECT_EQ(message("{}", {.dataset = "hotpot"}),
            "--dataset: found the LongBench dataset \"hotpot\", expected \"hotpotqa\"");
}

/// Every file of predictions next to a result.json must get the mean in that file.
TEST(LongBench, PublishedPredictionsScoreAsPublished) {
  const fs::path root = TURNBENCH_SOURCE_DIR "/../shared/data/longbench/scored_predictions";
  if (!fs::exists(root)) GTEST_SKIP() << root << " is not there";
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".jsonl") continue;
    const std::string dataset = entry.path().stem().string();
    const fs::path result_path = entry.path().parent_path() / "result.json";
    const Json result = parse_json(read_file(result_path), result_path.string());
    ASSERT_TRUE(result.contains(dataset)) << dataset;
    const FileScores scores = score_file(entry.path(), {.dataset = dataset});
    EXPECT_EQ(scores.mean, result[dataset].get<double>()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 9u);
}

}  // namespace
}  // namespace turnbench
