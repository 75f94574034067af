// Compares scores with those of the reference packages on generated texts; see
// tests/golden/make_metric_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/text.h"
#include "golden_cases.h"
#include "metrics/longbench_scoring.h"
#include "metrics/metric.h"
#include "metrics/segmenter.h"

namespace turnbench {
namespace {

/// A metric, the kind of texts, and the column of scores that it must reproduce.
struct Column {
  const char* metric;
  const char* column;
  const char* kind;
};

constexpr Column kColumns[] = {
    {"accuracy", "accuracy", "classes"},
    {"classification", "classification", "classes"},
    {"code_sim", "code_sim", "code"},
    {"code_sim_levenshtein", "code_sim_levenshtein", "code"},
    {"count", "count", "integers"},
    {"exact_match", "exact_match", "short"},
    {"gsm8k", "gsm8k", "solutions"},
    {"infinitebench_code_debug", "infinitebench_code_debug", "debug"},
    {"infinitebench_code_run", "infinitebench_code_run", "integers"},
    {"infinitebench_kv_retrieval", "infinitebench_kv_retrieval", "names"},
    {"infinitebench_longbook_choice_eng", "infinitebench_longbook_choice_eng", "choice"},
    {"infinitebench_longbook_qa_chn", "infinitebench_longbook_qa_chn", "chinese"},
    {"infinitebench_longbook_qa_eng", "qa_f1", "prose"},
    {"infinitebench_longbook_sum_eng", "rouge_score_lsum", "prose"},
    {"infinitebench_longdialogue_qa_eng", "infinitebench_longdialogue_qa_eng", "names"},
    {"infinitebench_math_calc", "infinitebench_math_calc", "sequences"},
    {"infinitebench_math_find", "infinitebench_math_find", "numbers"},
    {"infinitebench_number_string", "infinitebench_passkey", "integers"},
    {"infinitebench_passkey", "infinitebench_passkey", "integers"},
    {"leval_code", "leval_code", "outputs"},
    {"leval_letter", "leval_letter", "letters"},
    {"leval_letters", "leval_letters", "letters"},
    {"leval_stated", "leval_stated", "outputs"},
    {"leval_stated", "leval_stated/letters", "letters"},
    {"longbench_write_length", "longbench_write_length", "lengths"},
    {"qa_f1", "qa_f1", "prose"},
    {"qa_f1_zh", "qa_f1_zh", "chinese"},
    {"retrieval", "retrieval", "paragraphs"},
    {"retrieval_zh", "retrieval_zh", "paragraphs_zh"},
    {"rouge", "rouge", "prose"},
    {"rouge", "rouge/unbroken", "unbroken"},
    {"rouge_l_recall", "rouge_l_recall", "prose"},
    {"rouge_score_l", "rouge_score_l", "prose"},
    {"rouge_score_lsum", "rouge_score_lsum", "prose"},
    {"rouge_zh", "rouge_zh", "chinese"},
    {"ruler_match_all", "ruler_match_all", "names"},
    {"ruler_match_part", "ruler_match_part", "names"},
    {"scbench_choice_eng", "infinitebench_longbook_choice_eng", "choice"},
    {"scbench_kv", "scbench_kv", "names"},
    {"scbench_mf", "scbench_mf", "numbers"},
    {"scbench_passkey", "infinitebench_passkey", "integers"},
    {"scbench_qa_chn", "infinitebench_longbook_qa_chn", "chinese"},
    {"scbench_qa_eng", "scbench_qa_eng", "names"},
    {"scbench_summary", "rouge_score_lsum", "prose"},
    {"scbench_vt", "scbench_vt", "names"},
};

/// Metrics that tests/datasets/official_scores_test.cpp compares with official evaluations.
constexpr std::string_view kComparedWithDatasets[] = {"locomo_adversarial", "locomo_f1",
                                                      "locomo_multi_hop", "longbench_v2"};

TEST(Golden, EveryMetricIsCompared) {
  for (const Metric& metric : all_metrics()) {
    if (std::find(std::begin(kComparedWithDatasets), std::end(kComparedWithDatasets),
                  metric.name) != std::end(kComparedWithDatasets))
      continue;
    EXPECT_TRUE(std::any_of(std::begin(kColumns), std::end(kColumns), [&](const Column& column) {
      return column.metric == metric.name;
    })) << metric.name;
  }
}

TEST(Golden, MetricsAgreeWithTheReferencePackages) {
  const GoldenCases cases;
  const auto golden = read_golden_scores();
  const Segmenter segmenter =
      Segmenter::from_jieba(TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba");
  for (const Column& column : kColumns) {
    const Metric& metric = find_metric(column.metric, "test");
    const std::vector<double>& expected = golden.at(column.column);
    ASSERT_EQ(expected.size(), 5000u);
    int wrong = 0;
    for (std::size_t i = 0; i < expected.size() && wrong < 5; ++i) {
      const GoldenCase one = cases.make(column.kind, i);
      const double score = metric.score({one.prediction, one.references, one.classes, &segmenter});
      if (std::abs(score - expected[i]) <= 1e-12) continue;
      ++wrong;
      ADD_FAILURE() << metric.name << " case " << i << ": " << score << ", expected " << expected[i]
                    << "\nprediction: " << printable(shorten(one.prediction, 300))
                    << "\nreference: " << printable(shorten(one.references[0], 300));
    }
  }
}

TEST(Golden, RougeMarksTheRecursionLimit) {
  const GoldenCases cases;
  const auto golden = read_golden_scores();
  const Metric& rouge = find_metric("rouge", "test");
  int marked = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    const GoldenCase one = cases.make("unbroken", i);
    const ScoringInput scored{one.prediction, one.references, one.classes};
    if (rouge.remark(scored).empty()) continue;
    EXPECT_EQ(golden.at("rouge/unbroken")[i], 0.0);
    ++marked;
  }
  EXPECT_GT(marked, 0);
}

/// The same numbers as `mean_case` of the script.
std::vector<double> mean_case(std::string_view name, std::uint64_t index) {
  Random random = Random::from({seed_of(name), index});
  const std::uint64_t form = random.below(3);
  std::vector<double> scores(1 + random.below(400));
  for (double& score : scores) {
    score = form == 0   ? random.uniform()
            : form == 1 ? static_cast<double>(random.below(101)) / 100
                        : static_cast<double>(random.below(2));
  }
  return scores;
}

TEST(Golden, MeansAreRoundedAsPythonAndNumpyRound) {
  const auto golden = read_golden_scores();
  for (std::size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(longbench_mean(mean_case("longbench_mean", i)), golden.at("longbench_mean")[i]);
    const std::vector<double> scores = mean_case("longbench_e_mean", i);
    const std::vector<std::int64_t> lengths(scores.size(), 8000);
    EXPECT_EQ(longbench_e_means(scores, lengths)[2].mean, golden.at("longbench_e_mean")[i]);
  }
}

}  // namespace
}  // namespace turnbench
