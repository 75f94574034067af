#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace turnbench {

/// How LongBench generates and scores one of its datasets (`eval.py`, `dataset2maxlen.json`,
/// `pred.py`).
struct LongBenchScoring {
  std::string_view dataset;
  std::string_view metric;
  std::string_view postprocess;  ///< `first_line` or `none`
  int max_new_tokens;
  bool uses_chat_template;  ///< the prompt is wrapped by the model's chat template
  bool in_longbench_e;      ///< also part of LongBench-E
};

std::span<const LongBenchScoring> longbench_scorings();

/// The entry of `dataset`, which may end in `_e` if it is part of LongBench-E.
/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const LongBenchScoring& find_longbench_scoring(std::string_view dataset, const std::string& where);

/// The dataset's score as `eval.py` prints it: 100 x the mean, summed in file order and rounded to
/// two decimals.  `scores` must not be empty.
double longbench_mean(std::span<const double> scores);

/// One of LongBench-E's three length classes.
struct LengthBucket {
  std::string_view name;  ///< `0-4k`, `4-8k` or `8k+`
  std::size_t count = 0;
  double mean = 0;  ///< x100 as numpy means and rounds it; NaN for an empty bucket
};

/// Mean scores by the records' `length` (words; characters for Chinese): below 4000, below 8000,
/// and the rest.
std::array<LengthBucket, 3> longbench_e_means(std::span<const double> scores,
                                              std::span<const std::int64_t> lengths);

}  // namespace turnbench
