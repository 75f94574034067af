#pragma once

#include <string_view>
#include <vector>

namespace turnbench {

/// A quantity that tables can show: a score, a fidelity metric, a counter, or a measurement of
/// isolated experiments.
struct TableValue {
  std::string_view name, unit;
  double scale = 1;  ///< value in `unit` / stored value
  std::string_view meaning;
  std::string_view only_of = {};  ///< the cells that can have it; empty: all
  bool lower_is_better = false;
  int digits = 1;            ///< printed after the decimal point
  bool is_measured = false;  ///< stored as a counter or timing, not as a score
  bool is_signed = false;    ///< may be negative
  /// Measured, but deterministic: independent of batch composition and experiment.
  bool is_counter = false;

  /// True if values lie in [0, 1] and are printed as percentages.
  bool is_share() const { return scale == 100; }
};
const std::vector<TableValue>& table_values();
/// The quantity with this name; null for all other names, which are metrics.
const TableValue* find_table_value(std::string_view name);
/// True if a table with this `value` shows stored scores: those by the cells' own metrics, or by
/// the metric that `value` names.
bool shows_scores(std::string_view value);
/// Prefix of the metrics that hold a judge's scores: judge:RUBRIC, judge:RUBRIC:DIMENSION.
constexpr std::string_view kJudgePrefix = "judge:";

}  // namespace turnbench
