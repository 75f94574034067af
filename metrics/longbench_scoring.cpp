#include "metrics/longbench_scoring.h"

#include <cmath>
#include <vector>

#include "common/error.h"
#include "common/json.h"
#include "common/python_text.h"
#include "common/text.h"

namespace turnbench {
namespace {

// dataset, metric, postprocess, max_new_tokens, uses_chat_template, in_longbench_e
constexpr LongBenchScoring kScorings[] = {
    {"narrativeqa", "qa_f1", "none", 128, true, false},
    {"qasper", "qa_f1", "none", 128, true, true},
    {"multifieldqa_en", "qa_f1", "none", 64, true, true},
    {"multifieldqa_zh", "qa_f1_zh", "none", 64, true, false},
    {"hotpotqa", "qa_f1", "none", 32, true, true},
    {"2wikimqa", "qa_f1", "none", 32, true, true},
    {"musique", "qa_f1", "none", 32, true, false},
    {"dureader", "rouge_zh", "none", 128, true, false},
    {"gov_report", "rouge", "none", 512, true, true},
    {"qmsum", "rouge", "none", 512, true, false},
    {"multi_news", "rouge", "none", 512, true, true},
    {"vcsum", "rouge_zh", "none", 512, true, false},
    {"trec", "classification", "first_line", 64, false, true},
    {"triviaqa", "qa_f1", "first_line", 32, false, true},
    {"samsum", "rouge", "first_line", 128, false, true},
    {"lsht", "classification", "first_line", 64, false, false},
    {"passage_count", "count", "none", 32, true, true},
    {"passage_retrieval_en", "retrieval", "none", 32, true, true},
    {"passage_retrieval_zh", "retrieval_zh", "none", 32, true, false},
    {"lcc", "code_sim", "none", 64, false, true},
    {"repobench-p", "code_sim", "none", 64, false, true},
};

/// `numpy.add.reduce` of doubles: eight running sums up to 128 numbers, halves above.
double pairwise_sum(std::span<const double> values) {
  if (values.size() > 128) {
    const std::size_t half = values.size() / 2 / 8 * 8;
    return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
  }
  std::size_t done = 0;
  double sum = 0;
  if (values.size() >= 8) {
    std::array<double, 8> s;
    for (; done < 8; ++done) s[done] = values[done];
    for (; done + 8 <= values.size(); done += 8) {
      for (std::size_t i = 0; i < 8; ++i) s[i] += values[done + i];
    }
    sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
  for (; done < values.size(); ++done) sum += values[done];
  return sum;
}

}  // namespace

std::span<const LongBenchScoring> longbench_scorings() {
  return kScorings;
}

const LongBenchScoring& find_longbench_scoring(std::string_view dataset, const std::string& where) {
  const bool e = dataset.ends_with("_e");
  const std::string_view plain = dataset.substr(0, dataset.size() - (e ? 2 : 0));
  std::vector<std::string_view> known;
  for (const LongBenchScoring& scoring : kScorings) {
    if (scoring.dataset == plain && (!e || scoring.in_longbench_e)) return scoring;
    known.push_back(scoring.dataset);
  }
  throw input_error("{}: found the LongBench dataset \"{}\", expected {}", where,
                    printable(shorten(dataset, 60)), nearest_or_all(plain, known));
}

double longbench_mean(std::span<const double> scores) {
  double sum = 0;
  for (double score : scores) sum += score;
  return python::round_decimal(100 * sum / static_cast<double>(scores.size()), 2);
}

std::array<LengthBucket, 3> longbench_e_means(std::span<const double> scores,
                                              std::span<const std::int64_t> lengths) {
  std::array<LengthBucket, 3> buckets = {{{"0-4k"}, {"4-8k"}, {"8k+"}}};
  std::array<std::vector<double>, 3> parts;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    parts[lengths[i] < 4000 ? 0 : lengths[i] < 8000 ? 1 : 2].push_back(scores[i]);
  }
  for (std::size_t b = 0; b < 3; ++b) {
    buckets[b].count = parts[b].size();
    const double mean = 100 * (pairwise_sum(parts[b]) / static_cast<double>(parts[b].size()));
    // numpy rounds by scaling, so unlike in Python the last digit can be wrong.
    buckets[b].mean = std::nearbyint(mean * 100) / 100;
  }
  return buckets;
}

}  // namespace turnbench
