#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "metrics/longbench_scoring.h"
#include "metrics/metric.h"

namespace turnbench {

/// What `turnbench score` was asked for.
struct ScoreRequest {
  std::string metric = "";   ///< "" takes the dataset's
  std::string dataset = "";  ///< "" or a LongBench dataset, whose post-processing applies; NAME_e
                             ///< also gives LongBench-E's means, for which each line has `length`
  const Segmenter* segmenter = nullptr;
};

struct LineScore {
  std::size_t line;  ///< from 1
  double score;      ///< in [0, 1]
  std::string_view remark;
};

struct FileScores {
  std::string metric, dataset, postprocess;
  std::vector<LineScore> lines;
  double mean = 0;  ///< x100, two decimals, as LongBench's `eval.py` computes it
  std::vector<LengthBucket> by_length;  ///< of LongBench-E; else empty
};

/// Scores a file of one JSON object a line, which holds
///   prediction    `prediction` or `pred`: a string
///   references    `references`, `answers`, `ground_truth` or `label`: strings or numbers, one or a
///                 list
///   classes       `classes`: strings or null; or LongBench's `all_classes`, which as in `eval.py`
///                 counts for the whole file as it stands in the last line
/// and maybe `length`; other keys are passed over, and so are blank lines.  Refuses anything else
/// with the file and line, and a file without lines.
FileScores score_file(const std::filesystem::path& path, const ScoreRequest& request);

/// A line for each line of the file, and the mean.
std::string to_text(const FileScores& scores);

/// {"metric", "dataset", "postprocess", "n", "mean", "by_length": {NAME: {"n", "mean"}}, "scores":
/// [{"line", "score", "remark"}]}; `dataset`, `by_length` and `remark` only where there is one.
OrderedJson to_json(const FileScores& scores);

}  // namespace turnbench
