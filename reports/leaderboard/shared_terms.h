#pragma once

#include <string>
#include <vector>

#include "reports/leaderboard/board_cells.h"

namespace turnbench {

/// A dataset with a position and everything else that must be equal for methods to be compared.
struct BoardCondition {
  std::string dataset_hash, protocol, answers, metric, postprocess, position;
  std::string dataset;  ///< label
  /// True if the two differ in nothing but the position.
  bool is_other_position_of(const BoardCondition& other) const;
};

/// A method with its settings and its history.
struct BoardMethod {
  std::string label, canonical, history;
};

/// Cells of one model as a grid of methods and conditions.
struct BoardGrid {
  std::vector<BoardMethod> methods;
  std::vector<BoardCondition> conditions;
  /// [method][condition]; null if there is no such cell, or if it has no score.
  std::vector<std::vector<const BoardCell*>> cells;
};
BoardGrid board_grid(const std::vector<const BoardCell*>& cells);

/// The largest part of a grid in which every method has every condition, with the scores of the
/// turns that all of its methods have.  Methods with few turns are left out if there would be more
/// scores without them, but not the last two.
struct SharedTerms {
  std::vector<std::size_t> methods, conditions;  ///< indices in the grid
  std::vector<std::vector<Stratum>> scores;  ///< [method][condition]: of `methods`, `conditions`
  std::size_t turns = 0;                     ///< of all conditions
  std::size_t left_out_turns = 0;  ///< turns that only some of the methods have a score for
};
SharedTerms shared_terms(const BoardGrid& grid);

/// Joins strata of one dataset into one: a turn of stratum i gets the number i * 2^20 + turn.
/// `numbers`: i of each stratum.
Stratum joined_strata(const std::vector<const Stratum*>& strata,
                      const std::vector<std::size_t>& numbers);

/// Joins the strata of the conditions of each dataset, so that every dataset has the same weight:
/// [dataset].  `of_conditions`: of `terms.conditions`.
std::vector<Stratum> strata_of_datasets(const BoardGrid& grid, const SharedTerms& terms,
                                        const std::vector<Stratum>& of_conditions);

std::vector<const Stratum*> pointers_to_strata(const std::vector<Stratum>& strata);

}  // namespace turnbench
