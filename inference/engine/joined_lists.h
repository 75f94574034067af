#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"

namespace turnbench {

/// The slots of several lists of one set as one list, and the query heads that read each.
struct JoinedList {
  std::vector<std::int32_t> slots;   ///< in the order of the tokens
  std::vector<std::uint32_t> heads;  ///< bit h: head h of the set reads the slot
};

/// Most query heads of a set whose lists can be joined.
constexpr int kMostJoinedHeads = 32;

/// Joins the lists of each of `tokens.size()` sets, so that a token that several of its heads read
/// is read once.  lists: of query heads, as in Selection, several for a set; tokens: of each set;
/// working_slots: where the sets' tokens really are, [lists][tokens], or nothing if they are in
/// their own slots.  heads: query heads of a list.
std::vector<JoinedList> join_lists(Backend& backend,
                                   std::span<const std::vector<std::int32_t>> lists,
                                   std::span<const std::vector<std::int32_t>> working_slots,
                                   std::span<const std::int32_t> tokens, int heads);

}  // namespace turnbench
