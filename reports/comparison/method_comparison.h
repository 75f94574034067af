#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/answers.h"
#include "reports/estimate.h"
#include "reports/results.h"

namespace turnbench {

/// Which two methods to compare, and where.
struct ComparisonRequest {
  std::string experiment;
  std::string first, second;      ///< labels, methods with their settings, or names
  std::string model = {};         ///< label; empty: all models
  ScoreChoice choice = {};        ///< which scores; empty: the cells' own
  std::vector<int> lengths = {};  ///< upper bounds of prompt lengths, ascending; empty: quartiles
  std::size_t examples = 3;       ///< in each direction
};

/// One part of the dialogues on which two methods are compared.
struct ComparisonPart {
  std::string dimension, value;          ///< "position", "end"; "" for all
  Estimate first, second;                ///< on the turns that both have
  std::optional<Difference> difference;  ///< first minus second
};

/// A turn on which the two methods have different scores.
struct ComparisonExample {
  AnsweredTurn turn;             ///< with the answers of both, in this order
  double first = 0, second = 0;  ///< scores as tables print them
  int length = 0;                ///< tokens of the prompt; 0 if unknown
};

struct MethodComparison {
  std::string experiment, first, second;  ///< labels of the methods
  std::string metric;                     ///< "" for the cells' own
  TableValue unit;
  std::vector<ComparisonPart> parts;             ///< the first is the whole
  std::size_t answers = 0;                       ///< turns that both methods answered
  std::size_t equal_answers = 0;                 ///< with the same text
  std::vector<ComparisonExample> better, worse;  ///< of the first method; largest differences first
  std::vector<std::string> notes;
};

/// Compares two methods on the cells of an experiment that both have: same model, dataset,
/// position, history and source of earlier answers.  All differences are one family of tests.
/// @throws Error (input) for methods and models that are unknown or ambiguous, and if there is
/// nothing to compare
MethodComparison compare_methods(const Store& store, const ComparisonRequest& request);

/// With heading, tables and examples.
std::string comparison_markdown(const MethodComparison& comparison);
std::string comparison_json(const MethodComparison& comparison);

}  // namespace turnbench
