#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/run/sharing.h"
#include "harness/run/unit.h"

namespace turnbench {

/// What a plan assumes about the methods' own answers in histories.
enum class HistoryAnswers {
  kAgree,  ///< all methods give the same answers, equal to the gold ones
  kDiffer  ///< no two methods give the same answer
};

/// A turn of a unit as memory planning expects it to run.
struct PlannedTurn {
  std::vector<UnitCell> cells;  ///< of the unit, then full attention's that fidelity adds
  std::size_t recorded = 0;     ///< number of cells of the unit
  bool fidelity = false;
  TurnSharing sharing;  ///< of `cells`

  bool is_recorded(std::size_t cell) const { return cell < recorded; }
};

/// Tokens that a method keeps in each set after a prompt of `prompt` tokens: its budget, or all.
std::int64_t kept_tokens(const Method& method, std::int64_t prompt);
/// Tokens of a prompt that a cell computes between two evictions in a turn; 0: it does not evict
/// within prompts.
std::int64_t block_of(const UnitCell& cell, std::size_t turn);
PlannedTurn plan_turn(const Unit& unit, std::size_t turn, HistoryAnswers answers, bool isolated,
                      std::optional<Along> fidelity);

}  // namespace turnbench
