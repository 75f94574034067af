#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

class Segmenter;

/// What a metric may look at.
struct ScoringInput {
  std::string_view prediction;
  const std::vector<std::string>& references;
  const std::vector<std::string>& classes;  ///< empty unless the task is a classification
  const Segmenter* segmenter = nullptr;     ///< what the metrics of Chinese words need
};

/// A named way to turn an answer into a number in [0, 1] (tables multiply by 100).  Pure: the same
/// input gives the same bits everywhere.  Refuses references that it cannot use.
struct Metric {
  std::string_view name;         ///< as manifests and `score --metric` write it
  std::string_view description;  ///< one line, with the source whose behaviour it has
  std::function<double(const ScoringInput&)> score;
  /// Empty, or gives what a reader should know about this score ("" for nothing): "recursion_zero"
  /// where an official scorer gives 0 only because it exceeds Python's recursion limit.
  std::function<std::string_view(const ScoringInput&)> remark = nullptr;
  bool needs_segmenter = false;  ///< refuses to score without a dictionary of Chinese words
};

/// All metrics, by name.
const std::vector<Metric>& all_metrics();

/// Refuses an unknown name with the nearest known one; `where` names the place in messages.
const Metric& find_metric(std::string_view name, const std::string& where);

}  // namespace turnbench
