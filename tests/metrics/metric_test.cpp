#include "metrics/metric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "metrics/longbench_scoring.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

TEST(Metric, NamesAreSortedUniqueAndDescribed) {
  std::string_view last;
  for (const Metric& metric : all_metrics()) {
    EXPECT_LT(last, metric.name);
    EXPECT_FALSE(metric.description.empty()) << metric.name;
    EXPECT_EQ(metric.description.find('\n'), std::string_view::npos) << metric.name;
    last = metric.name;
  }
  EXPECT_EQ(&find_metric("qa_f1", "test"), &find_metric("qa_f1", "test"));
}

TEST(Metric, UnknownNamesAreRefusedWithTheNearest) {
  try {
    find_metric("rogue", "--metric");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(), "--metric: found the metric \"rogue\", expected \"rouge\"");
  }
  EXPECT_THROW(find_metric("", "x"), Error);
  EXPECT_THROW(find_metric(std::string(100'000, 'x'), "x"), Error);
}

TEST(Metric, UsesTheBestReference) {
  const std::vector<std::string> references = {"London", "Paris", "Rome"}, none;
  const Metric& qa_f1 = find_metric("qa_f1", "test");
  EXPECT_EQ(qa_f1.score({"paris", references, none}), 1.0);
  EXPECT_EQ(qa_f1.score({"paris", none, none}), 0.0);
}

TEST(Metric, ErrorsNameTheMetric) {
  const std::vector<std::string> references = {"no number"}, none;
  try {
    find_metric("retrieval", "test").score({"1", references, none});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "metric retrieval: found the reference \"no number\", expected \"Paragraph \" and a "
        "number");
  }
}

TEST(LongBenchScoring, NamesExistingMetricsAndPostprocesses) {
  std::set<std::string_view> datasets;
  for (const LongBenchScoring& scoring : longbench_scorings()) {
    EXPECT_NO_THROW(find_metric(scoring.metric, "test"));
    EXPECT_NO_THROW(find_postprocess(scoring.postprocess, "test"));
    datasets.insert(scoring.dataset);
  }
  EXPECT_EQ(datasets.size(), 21u);
  const auto in_longbench_e =
      std::count_if(longbench_scorings().begin(), longbench_scorings().end(),
                    [](const LongBenchScoring& scoring) { return scoring.in_longbench_e; });
  EXPECT_EQ(in_longbench_e, 13);
  const auto first_line = std::count_if(
      longbench_scorings().begin(), longbench_scorings().end(),
      [](const LongBenchScoring& scoring) { return scoring.postprocess == "first_line"; });
  EXPECT_EQ(first_line, 4);
  EXPECT_EQ(find_longbench_scoring("hotpotqa_e", "x").dataset, "hotpotqa");
  for (const char* name : {"hotpotqq", "musique_e", "_e", ""}) {
    EXPECT_THROW(find_longbench_scoring(name, "x"), Error) << name;
  }
}

TEST(Metric, WithoutAReferenceGivesNoScore) {
  for (const Metric& metric : all_metrics()) {
    for (const std::vector<std::string>& references :
         {std::vector<std::string>{}, {""}, {" \n", "\t"}})
      EXPECT_EQ(score_of(metric, {"", references, {}}), std::nullopt) << metric.name;
  }
  const std::vector<std::string> some = {"", "red"}, classes;
  EXPECT_EQ(score_of(find_metric("exact_match", "test"), {"red", some, classes}), 1);
  EXPECT_EQ(score_of(find_metric("exact_match", "test"), {"blue", some, classes}), 0);
}

}  // namespace
}  // namespace turnbench
