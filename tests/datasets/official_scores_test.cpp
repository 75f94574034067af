// Scores of synthetic predictions that the official evaluations gave; see
// tests/golden/make_official_golden.py.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "common/python_text.h"
#include "datasets/locomo.h"
#include "datasets/realtalk.h"
#include "datasets/ruler.h"
#include "metrics/metric.h"
#include "native_checks.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

const std::string kOfficial = TURNBENCH_SOURCE_DIR "/tests/data/official/";

Json golden(const std::string& name) {
  const std::string path = kOfficial + name;
  return parse_json(read_file(path), path);
}

double score(const std::string& metric, const std::string& prediction,
             const std::vector<std::string>& references) {
  return find_metric(metric, "test").score({prediction, references, {}});
}

/// 100 x the mean, rounded as in the official evaluation.
double percent(double sum, std::size_t count, int digits) {
  return python::round_decimal(sum / static_cast<double>(count) * 100, digits);
}

TEST(OfficialScores, RulerOfAllThirteenTasks) {
  const Json tasks = golden("ruler.json").at("tasks");
  ASSERT_EQ(ruler_tasks().size(), 13u);
  ASSERT_EQ(tasks.size(), 13u);
  for (const RulerTask& task : ruler_tasks()) {
    const Json& made = tasks.at(std::string(task.name));
    double sum = 0;
    for (const Json& one : made.at("cases")) {
      const auto outputs = one.at("outputs").get<std::vector<std::string>>();
      const double found = score(std::string(task.metric), one.at("prediction"), outputs);
      EXPECT_EQ(percent(found, 1, 2), one.at("score").get<double>()) << task.name << one;
      sum += found;
    }
    EXPECT_EQ(percent(sum, made.at("cases").size(), 2), made.at("score").get<double>())
        << task.name;
  }
}

TEST(OfficialScores, LongBenchV2ByDifficultyAndLength) {
  const Json all = golden("longbench_v2.json");
  std::map<std::string, Json> cases;
  for (const Json& one : all.at("cases")) cases[one.at("id")] = one;
  for (const auto& [set, accuracy] : all.at("accuracy").items()) {
    const std::string name = set == "overall" ? "longbench-v2" : "longbench-v2-" + set;
    const auto dialogues = test::load_checked(name, kOfficial + "longbench_v2_records.json");
    ASSERT_FALSE(dialogues.empty());
    EXPECT_EQ(dialogues.size() == cases.size(), set == "overall");
    double sum = 0;
    for (const Dialogue& d : dialogues) {
      const Json& one = cases.at(d.id);
      const std::string prediction = one.at("prediction");
      const double found = score(d.metric, prediction, d.turns.at(0).references);
      EXPECT_EQ(found == 1, one.at("right").get<bool>()) << prediction;
      const std::string letter = one.at("letter");
      EXPECT_EQ(score(d.metric, prediction, {letter}), 1) << prediction << ": not " << letter;
      sum += found;
    }
    EXPECT_EQ(percent(sum, dialogues.size(), 1), accuracy.get<double>()) << name;
  }
}

/// Scores the predictions of a golden file for questions of several datasets.
void check_by_id(const std::string& collection, std::span<const MemoryCategory> categories) {
  const fs::path records = kOfficial + collection + "_records.json";
  std::map<std::string, std::pair<std::string, std::vector<std::string>>> questions;
  for (const MemoryCategory& category : categories) {
    for (const Dialogue& d :
         test::load_checked(fmt::format("{}-{}", collection, category.name), records))
      questions[d.id] = {d.metric, d.turns.at(0).references};
  }
  const Json cases = golden(collection + ".json").at("cases");
  EXPECT_EQ(questions.size(), cases.size());
  for (const Json& one : cases) {
    const auto& [metric, references] = questions.at(one.at("id"));
    EXPECT_NEAR(score(metric, one.at("prediction"), references), one.at("score").get<double>(),
                1e-12)
        << one;
  }
}

TEST(OfficialScores, LocomoOfAllFiveCategories) {
  check_by_id("locomo", locomo_categories());
}

TEST(OfficialScores, RealTalkOfAllThreeCategories) {
  check_by_id("realtalk", realtalk_categories());
}

}  // namespace
}  // namespace turnbench
