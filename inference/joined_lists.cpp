#include "inference/joined_lists.h"

#include <bit>
#include <cassert>

namespace turnbench {
namespace {

constexpr int kWordBits = 64;

/// The tokens of some lists, as bits; finds the rank of a token among them.
class TokenSet {
 public:
  TokenSet(std::span<const std::vector<std::int32_t>> lists, std::int32_t tokens)
      : words_(static_cast<std::size_t>((tokens + kWordBits - 1) / kWordBits)),
        before_(words_.size()) {
    for (const std::vector<std::int32_t>& list : lists) {
      for (const std::int32_t token : list) words_[word_of(token)] |= bit_of(token);
    }
    for (std::size_t i = 0; i < words_.size(); ++i) {
      before_[i] = count_;
      count_ += static_cast<std::uint32_t>(std::popcount(words_[i]));
    }
  }

  std::size_t size() const { return count_; }
  std::size_t rank(std::int32_t token) const {
    const std::size_t word = word_of(token);
    return before_[word] +
           static_cast<std::size_t>(std::popcount(words_[word] & (bit_of(token) - 1)));
  }

 private:
  static std::size_t word_of(std::int32_t token) {
    return static_cast<std::size_t>(token) / kWordBits;
  }
  static std::uint64_t bit_of(std::int32_t token) {
    return std::uint64_t{1} << static_cast<std::uint32_t>(token) % kWordBits;
  }

  std::vector<std::uint64_t> words_;
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
    const TokenSet chosen(lists.subspan(s * per_set, per_set), tokens[s]);
    JoinedList& joined = out[s];
    joined.slots.resize(chosen.size());
    joined.heads.resize(chosen.size());
    for (std::size_t j = 0; j < per_set; ++j) {
      const std::vector<std::int32_t>& list = lists[s * per_set + j];
      const std::vector<std::int32_t>& slots =
          working_slots.empty() ? list : working_slots[s * per_set + j];
      for (std::size_t i = 0; i < list.size(); ++i) {
        const std::size_t rank = chosen.rank(list[i]);
        joined.slots[rank] = slots[i];
        joined.heads[rank] |= of_list << (j * static_cast<std::size_t>(heads));
      }
    }
  });
  return out;
}

}  // namespace turnbench
