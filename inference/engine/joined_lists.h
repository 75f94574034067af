#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"

namespace turnbench {

/// Several lists of slots of one set, merged into one list, with the query heads that read each
/// slot.
struct JoinedList {
  std::vector<std::int32_t> slots;   ///< in the order of the tokens
  std::vector<std::uint32_t> heads;  ///< bit h: head h of the set reads the slot
};

/// Maximal number of query heads of a set whose lists can be merged.
constexpr int kMostJoinedHeads = 32;

/// Merges the lists of each of `tokens.size()` sets, so that a token that several query heads read
/// is loaded once.  lists: as in Selection, several per set; working_slots: the slots in which the
/// tokens are stored, [lists][tokens], or empty if these are the listed slots; tokens: size of each
/// set; heads: query heads per list.
std::vector<JoinedList> join_lists(Backend& backend,
                                   std::span<const std::vector<std::int32_t>> lists,
                                   std::span<const std::vector<std::int32_t>> working_slots,
                                   std::span<const std::int32_t> tokens, int heads);

}  // namespace turnbench
