// No text, however ill-formed or long, may crash a metric or take more than a few seconds.
#include <gtest/gtest.h>

#include <chrono>

#include "common/error.h"
#include "common/random.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"
#include "metrics/segmenter.h"

namespace turnbench {
namespace {

// Maximum seconds of a score; about twenty times as many with a sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 600;
#else
constexpr double kMostSeconds = 30;
#endif

std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

std::string random_bytes(std::size_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(random.below(256));
  return out;
}

/// Different sentences that all share two words in changing order.
std::string crossing_sentences(std::size_t bytes, const char* first, const char* second) {
  std::string out;
  for (int i = 0; out.size() < bytes; ++i) {
    out += std::string(first) + " " + second + " " + first + std::to_string(i) + ". ";
  }
  return out;
}

class Hostile : public testing::TestWithParam<std::string> {};

TEST_P(Hostile, EveryMetricScoresOrRefuses) {
  constexpr std::size_t kBytes = 100'000;
  const Segmenter segmenter =
      Segmenter::from_jieba(TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba");
  const std::pair<std::string, std::string> pairs[] = {
      {random_bytes(kBytes, 1), random_bytes(kBytes, 2)},
      {repeated("a", kBytes), repeated("a", kBytes - 1)},
      {repeated("a", kBytes), repeated("a", kBytes / 2) + "b"},
      {repeated("a.", kBytes), repeated("a.", kBytes)},
      {repeated("a\n", kBytes), repeated("b\na\n", kBytes)},
      {crossing_sentences(kBytes, "x", "b"), crossing_sentences(kBytes, "b", "x")},
      {repeated(" ", kBytes), repeated(". ", kBytes)},
      {repeated("9", kBytes), repeated("9", 1000)},
      {repeated("Paragraph ", kBytes), repeated("Paragraph ", kBytes) + "3"},
      {repeated("\xF0\x9F\x98", kBytes), repeated("\xED\xA0\x80", kBytes)},
      {repeated("中国龘", kBytes), repeated("龘中国", kBytes)},
      {repeated("Σ'", kBytes), repeated("İ", kBytes)},
      {std::string(1000, '\0'), std::string("\0a", 2)},
      {"", ""},
      {repeated("answer is:", kBytes), "A"},
      {repeated("abcdefghij", 4000), repeated("jihgfedcba", 4000)},
  };
  const Metric& metric = find_metric(GetParam(), "test");
  for (const auto& [prediction, reference] : pairs) {
    const std::vector<std::string> references = {reference, "7"};
    const std::vector<std::string> classes = {"a", "b", reference, ""};
    const auto start = std::chrono::steady_clock::now();
    try {
      const double score = metric.score({prediction, references, classes, &segmenter});
      EXPECT_GE(score, 0.0);
      EXPECT_LE(score, 1.0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_LT(std::string_view(error.what()).size(), 400u);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    EXPECT_LT(time.count(), kMostSeconds) << prediction.substr(0, 20);
  }
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : all_metrics()) names.emplace_back(metric.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Metrics, Hostile, testing::ValuesIn(metric_names()),
                         [](const auto& test) { return test.param; });

TEST(HostilePostprocess, AnyAnswerIsCut) {
  for (const Postprocess& postprocess : all_postprocesses()) {
    for (const std::string& answer :
         {random_bytes(200'000, 3), repeated(" is ", 200'000), repeated(",.", 200'000),
          repeated("\n", 200'000), std::string()}) {
      EXPECT_LE(postprocess.apply(answer).size(), answer.size());
    }
  }
}

}  // namespace
}  // namespace turnbench
