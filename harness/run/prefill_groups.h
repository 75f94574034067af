#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "harness/run/active_unit.h"

namespace turnbench {

/// A prompt to prefill, and the branches that fork from it.
struct Prefill {
  ActiveUnit* unit = nullptr;
  Pass pass;
  std::vector<int> tokens;
  std::vector<Branch*> forks;
  bool is_full = false;                   ///< full attention, the reference for fidelity
  bool to_question = false;               ///< as in TurnPrefill
  std::optional<std::size_t> whole = {};  ///< as in TurnPrefill: an index in the work
};

/// Determines which branches of a unit share the prefills of the turn that they have begun.
TurnSharing share_turn(const ActiveUnit& unit, const Decoding& decoding);

/// Prefills the unit's `dense_histories` that branches need.  This is separate from the turn's own
/// prefills, so that the times of the turn exclude it.
void prefill_dense_histories(Engine& engine, const Decoding& decoding, ActiveUnit& unit);

/// Adds the prefills of the unit's turn, as in its `sharing`, to `work`.  Returns the prefixes that
/// branches share; the passes in `work` point to them.
std::map<PrefixKey, Sequence> add_prefills(Engine& engine, ActiveUnit& unit,
                                           std::vector<Prefill>& work);

/// Computes the rows that prefills up to the question share with those of whole prompts; before
/// them, for the former, the rows of the previous turn's question.  The last row before the
/// question, where methods evict, remains for both.
void prefill_shared_rows(Engine& engine, std::span<Prefill> work);

/// Computes the blocks of methods with Policies::compress_block, except for the last block of each
/// prompt.  Blocks begin where the turn's own tokens begin.
void prefill_blocks(Engine& engine, std::span<Prefill> work);

/// Continues the branches whose prefills end at the question to the end of their prompts, without
/// eviction, and sets their logits.
void prefill_questions(Engine& engine, std::span<const Prefill> work);

}  // namespace turnbench
