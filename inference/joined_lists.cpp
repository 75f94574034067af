#include "inference/joined_lists.h"

#include <bit>
#include <cassert>

#include "inference/slot_set.h"

namespace turnbench {
namespace {

/// The tokens of some lists, and the rank of each among them.
class RankedTokens : public SlotSet {
 public:
  RankedTokens(std::span<const std::vector<std::int32_t>> lists, std::int32_t tokens)
      : SlotSet(tokens) {
    for (const std::vector<std::int32_t>& list : lists) add(list);
    before_.reserve(words_.size());
    for (const std::uint64_t word : words_) {
      before_.push_back(count_);
      count_ += static_cast<std::uint32_t>(std::popcount(word));
    }
  }

  std::size_t size() const { return count_; }
  std::size_t rank(std::int32_t token) const {
    const std::size_t word = word_of(token);
    return before_[word] +
           static_cast<std::size_t>(std::popcount(words_[word] & (bit_of(token) - 1)));
  }

 private:
  std::vector<std::uint32_t> before_;  ///< tokens in the words before
  std::uint32_t count_ = 0;
};

}  // namespace

std::vector<JoinedList> join_lists(Backend& backend,
                                   std::span<const std::vector<std::int32_t>> lists,
                                   std::span<const std::vector<std::int32_t>> working_slots,
                                   std::span<const std::int32_t> tokens, int heads) {
  const std::size_t per_set = lists.size() / tokens.size();
  assert(per_set * static_cast<std::size_t>(heads) <= kMostJoinedHeads);
  const std::uint32_t of_list = heads == kMostJoinedHeads ? ~0U : (1U << heads) - 1;
  std::vector<JoinedList> out(tokens.size());
  backend.parallel_for(out.size(), [&](std::size_t s) {
    const RankedTokens chosen(lists.subspan(s * per_set, per_set), tokens[s]);
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
