#include "inference/engine/joined_lists.h"

#include <cassert>
#include <utility>

#include "inference/kv/slot_set.h"

namespace turnbench {
std::vector<JoinedList> join_lists(Backend& backend,
                                   std::span<const std::vector<std::int32_t>> lists,
                                   std::span<const std::vector<std::int32_t>> working_slots,
                                   std::span<const std::int32_t> tokens, int heads) {
  const std::size_t per_set = lists.size() / tokens.size();
  assert(per_set * static_cast<std::size_t>(heads) <= kMostJoinedHeads);
  const std::uint32_t of_list = heads == kMostJoinedHeads ? ~0U : (1U << heads) - 1;
  std::vector<JoinedList> out(tokens.size());
  backend.parallel_for(out.size(), [&](std::size_t s) {
    SlotSet all(tokens[s]);
    for (const std::vector<std::int32_t>& list : lists.subspan(s * per_set, per_set)) all.add(list);
    const RankedSlots chosen(std::move(all));
    JoinedList& joined = out[s];
    joined.slots.resize(chosen.size());
    joined.heads.resize(chosen.size());
    for (std::size_t j = 0; j < per_set; ++j) {
      const std::vector<std::int32_t>& list = lists[s * per_set + j];
      const std::vector<std::int32_t>& slots =
          working_slots.empty() ? list : working_slots[s * per_set + j];
      std::size_t rank = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const bool follows = i > 0 && list[i] == list[i - 1] + 1;
        rank = follows ? rank + 1 : chosen.rank(list[i]);
        joined.slots[rank] = slots[i];
        joined.heads[rank] |= of_list << (j * static_cast<std::size_t>(heads));
      }
    }
  });
  return out;
}

}  // namespace turnbench
