#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reports/comparison/method_comparison.h"

namespace turnbench {

/// The cells of two methods that differ in nothing but the method.
struct ComparedCells {
  const Cell *first, *second;
  Stratum first_scores, second_scores;  ///< of the turns that both have
};

/// The label of the method that `spec` names, among the cells of `model` (empty: all).
/// @throws Error (input) with `place` if it names none or several
std::string find_compared_method(const std::vector<Cell>& cells, const std::string& spec,
                                 const std::string& model, const char* place);

std::vector<ComparedCells> compared_cells(const Results& results, const std::string& first,
                                          const std::string& second, const std::string& model);

/// Prompt lengths in tokens: [cells][turn of their scores].  Those of the second method; of the
/// first, if the second's are unknown because its predictions were imported; else 0.
std::vector<std::vector<int>> prompt_lengths(const Store& store, const Results& results,
                                             const std::vector<ComparedCells>& cells);

}  // namespace turnbench
