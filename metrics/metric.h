#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

class Segmenter;

/// The input of a metric: one answer with its references.  References to the caller's data.
struct ScoringInput {
  std::string_view prediction;
  const std::vector<std::string>& references;
  const std::vector<std::string>& classes;  ///< empty unless the task is a classification
  const Segmenter* segmenter = nullptr;     ///< for metrics of Chinese words; otherwise null
};

/// A metric: scores an answer in [0, 1] (tables multiply by 100).  A pure function: the same input
/// gives the same bits on every machine.
struct Metric {
  std::string_view name;         ///< its name in manifests and in `score --metric`
  std::string_view description;  ///< one line; names the scorer that it reproduces
  /// @throws Error (input) if the references do not have the form that the metric needs.
  std::function<double(const ScoringInput&)> score;
  /// A remark on one score, "" for none.  May be null.  The only remark is "recursion_zero": the
  /// official scorer gives 0 because it exceeds Python's recursion limit.
  std::function<std::string_view(const ScoringInput&)> remark = nullptr;
  bool needs_segmenter = false;  ///< cannot score without a segmenter of Chinese words
};

/// All metrics, sorted by name.
const std::vector<Metric>& all_metrics();

/// The metric with this name; null for other names, which denote judges' scores or measurements.
const Metric* known_metric(std::string_view name);

/// False if no reference has a visible character: there is nothing to compare an answer with.
bool has_reference(const std::vector<std::string>& references);

/// The score of an answer; none without a reference.
/// @throws Error (input) as `Metric::score`.
std::optional<double> score_of(const Metric& metric, const ScoringInput& input);

/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const Metric& find_metric(std::string_view name, const std::string& where);

}  // namespace turnbench
