#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/diff/run.h"
#include "reports/estimate.h"
#include "reports/results.h"

namespace turnbench {

/// A field in which the protocols of two runs differ, over all pairs of cells.
struct FieldDifference {
  struct Values {
    std::string first, second;  ///< "-": there is no such field
    std::size_t cells = 0;      ///< pairs of cells with these values
  };
  std::string field;
  std::vector<Values> values;  ///< in table order, without duplicates
};

/// Two cells of two runs with the same place in their tables.
struct CellPair {
  Cell first, second;
  // Common: the dialogues with the same id and content, and their turns with records in both runs.
  int dialogues = 0, turns = 0;
  // Dialogues that are not compared: those with records in one run only, and those with the same id
  // in both but other content.
  int only_first = 0, only_second = 0, other_content = 0;
  // Numbers of common turns that differ.
  int prompts = 0, answers = 0, scores = 0;
  std::vector<std::string> counters;  ///< names of the counters that differ in some turn
  /// On the common turns with scores in both runs.
  Estimate first_score, second_score;
  std::optional<Difference> difference;  ///< second minus first, paired

  /// True if a common turn has another answer, score or counter.
  bool differs() const { return answers > 0 || scores > 0 || !counters.empty(); }
  /// True if all dialogues of either cell were compared.
  bool is_complete() const { return only_first + only_second + other_content == 0; }
};

/// The comparison of two runs.
struct RunDiff {
  Run first, second;
  std::string smoke;                      ///< the warning of a smoke run; empty if neither is one
  TableValue value;                       ///< the quantity that the scores measure
  std::vector<FieldDifference> protocol;  ///< in the order of the protocol card
  std::vector<CellPair> pairs;            ///< in table order of the first run
  std::vector<Cell> only_first, only_second;

  std::size_t cells_that_differ() const;
  /// True if all cells have a counterpart with the same results of the same dialogues.
  bool same_results() const;
};

/// Compares two runs.  Cells are paired by their labels in the tables: model, dataset, position,
/// method, history and answers.  A label that is the same in all cells of each run is ignored, so
/// that the runs may differ in it.  So are a method's settings, if each run has only one remaining
/// cell with a method of this name.  `choice`: the scores to compare, as for `Results`.
/// @throws Error (input) for an unknown experiment or metric.
RunDiff diff(const Run& first, const Run& second, const ScoreChoice& choice = {},
             const Comparison& comparison = {});

}  // namespace turnbench
