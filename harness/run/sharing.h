#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/unit.h"

namespace turnbench {

// Which cells of a unit share computation in a turn.  The runner and memory planning both use these
// functions.

/// The prefill key of full attention over the whole prompt.
inline const std::string kDensePrefill;
/// The end of the key of a prefill that ends at the question.
inline const std::string kToQuestion = " to the question";

/// How a cell reaches the end of a turn's prompt.
enum class TurnStart {
  kSkip,         ///< not at all: the turn is only part of the last turn's history
  kFork,         ///< forks from a prefix that cells with the same prefill of the same prompt share
  kRestart,      ///< prefills the whole dialogue without sharing
  kContinue,     ///< continues the cache that its previous turn left
  kDenseHistory  ///< continues the shared dense history
};

/// `turn` counts from 0 to `turns` - 1.  The memory of an isolated cell is not shared.
TurnStart start_of(const UnitCell& cell, std::size_t turn, std::size_t turns, bool isolated);

/// True if the cell's answers are those of full attention over the whole dialogue, so that it is
/// the reference for fidelity.
bool is_reference(const UnitCell& cell);

/// Cells of full attention that generate the answers along which fidelity is measured: one for each
/// kind of `Answers` in `cells` without a reference among them.  Their results are not recorded.
std::vector<UnitCell> missing_references(std::span<const UnitCell> cells);

/// A cell in a turn.
struct TurnCell {
  const Method* method = nullptr;
  TurnStart start = TurnStart::kFork;
  std::size_t prompt = 0;  ///< a number; equal if and only if the prompts are
  bool evicts = true;      ///< while it decodes, if the method does
  std::size_t state =
      0;  ///< kContinue: a number; equal only if the previous turn left equal caches
};

/// One prefill of a turn.
struct TurnPrefill {
  TurnStart start = TurnStart::kFork;
  std::size_t first = 0;           ///< the cell that determines the method and the prompt
  std::vector<std::size_t> cells;  ///< those that answer after it
  std::string key;                 ///< kFork: the prefill key, and whether it ends at the question
  /// It ends where the turn's question begins: the method evicts there.  Each cell then continues
  /// to the end of the prompt.
  bool to_question = false;
  /// to_question: the dense prefill of the whole prompt, as an index in `prefills`.  The rows from
  /// the previous turn's prompt up to the question are computed once for both.
  std::optional<std::size_t> whole;
  bool is_sparse = false;
  bool reuses_cached_prompt = true;  ///< as in Policies
  bool is_full = false;              ///< full attention, the reference for fidelity

  /// True if a restart computes the rows of each turn in a separate pass, as in a prefix that the
  /// turns extend.
  bool restarts_by_turns() const { return is_sparse && reuses_cached_prompt; }
  bool operator==(const TurnPrefill&) const = default;
};

/// The prefills of a turn.  Cells are indices in the argument of `share_turn`.
struct TurnSharing {
  std::vector<TurnPrefill> prefills;
  /// For each cell, the first cell with the same method in the same state, which decodes for both:
  /// their answers are equal.  A cell that decodes for itself has its own index.
  std::vector<std::size_t> decoder_of;
  /// The dense histories that cells continue, by whether they store pre-RoPE keys, and the first
  /// cell of each.
  std::map<bool, std::size_t> dense_histories;
  // Of shared sequences:
  int window = 0;              ///< rows of queries that they keep
  bool pre_rope_keys = false;  ///< whether prefixes store pre-RoPE keys

  bool operator==(const TurnSharing&) const = default;
};

/// `index`: of the cell in its unit.  `previous`: the sharing of the previous turn, if any.
TurnCell turn_cell(const UnitCell& cell, TurnStart start, std::size_t prompt, std::size_t index,
                   const TurnSharing& previous);

/// `fidelity`: every prompt also gets a prefill with full attention, the reference.
TurnSharing share_turn(std::span<const TurnCell> cells, bool fidelity);

}  // namespace turnbench
