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

/// The options of `turnbench score FILE`.
struct ScoreRequest {
  std::string metric = "";  ///< "": the dataset's metric
  /// "" or a LongBench dataset, whose post-processing applies.  NAME_e adds LongBench-E's means by
  /// length; then every line needs `length`.
  std::string dataset = "";
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
  std::vector<LengthBucket> by_length;  ///< for LongBench-E; otherwise empty
};

/// Scores a jsonl file.  Each line is a JSON object with the keys
///   prediction    `prediction` or `pred`: a string
///   references    `references`, `answers`, `ground_truth` or `label`: strings or numbers, one or a
///                 list
///   classes       `classes`: strings or null; or LongBench's `all_classes`, whose value in the
///                 last line applies to the whole file, as in `eval.py`
/// and optionally `length`.  Ignores other keys and blank lines.
/// @throws Error (input), with file and line, for anything else and for a file without lines.
FileScores score_file(const std::filesystem::path& path, const ScoreRequest& request);

/// One text line per line of the file, then the mean.
std::string to_text(const FileScores& scores);

/// {"metric", "dataset", "postprocess", "n", "mean", "by_length": {NAME: {"n", "mean"}}, "scores":
/// [{"line", "score", "remark"}]}. `dataset`, `by_length` and `remark` are omitted if empty.
OrderedJson to_json(const FileScores& scores);

}  // namespace turnbench
