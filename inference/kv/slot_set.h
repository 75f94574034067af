#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace turnbench {

/// Slots of a KV set as a bit set.
class SlotSet {
 public:
  /// slots: the number of slots of the KV set.
  explicit SlotSet(std::int32_t slots)
      : words_(static_cast<std::size_t>((slots + kWordBits - 1) / kWordBits)) {}

  void add(std::int32_t slot) { words_[word_of(slot)] |= bit_of(slot); }
  /// Adds several slots; fastest if neighbours are in the same word.
  void add(std::span<const std::int32_t> slots) {
    for (std::size_t i = 0; i < slots.size();) {
      const std::size_t word = word_of(slots[i]);
      std::uint64_t bits = 0;
      for (; i < slots.size() && word_of(slots[i]) == word; ++i) bits |= bit_of(slots[i]);
      words_[word] |= bits;
    }
  }

  void remove(std::int32_t slot) { words_[word_of(slot)] &= ~bit_of(slot); }

  /// Removes the `count` lowest slots, or all if there are fewer, and returns them in ascending
  /// order.
  std::vector<std::int32_t> take_lowest(std::size_t count) {
    std::vector<std::int32_t> out;
    out.reserve(count);
    for (std::size_t i = 0; i < words_.size() && out.size() < count; ++i) {
      for (; words_[i] != 0 && out.size() < count; words_[i] &= words_[i] - 1)
        out.push_back(slot_at(i, std::countr_zero(words_[i])));
    }
    return out;
  }

  /// Appends the slots to `out` in ascending order.
  void append_to(std::vector<std::int32_t>& out) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1)
        out.push_back(slot_at(i, std::countr_zero(left)));
    }
  }

 protected:
  static constexpr int kWordBits = 64;

  static std::size_t word_of(std::int32_t slot) {
    return static_cast<std::size_t>(slot) / kWordBits;
  }
  static std::uint64_t bit_of(std::int32_t slot) {
    return std::uint64_t{1} << static_cast<std::uint32_t>(slot) % kWordBits;
  }

  std::vector<std::uint64_t> words_;

 private:
  static std::int32_t slot_at(std::size_t word, int bit) {
    return static_cast<std::int32_t>(word) * kWordBits + bit;
  }
};

/// An immutable set of slots with the rank of each slot among them.
class RankedSlots : private SlotSet {
 public:
  explicit RankedSlots(SlotSet slots) : SlotSet(std::move(slots)) {
    before_.reserve(words_.size());
    for (const std::uint64_t word : words_) {
      before_.push_back(count_);
      count_ += static_cast<std::uint32_t>(std::popcount(word));
    }
  }

  std::size_t size() const { return count_; }
  /// The number of slots in the set that are lower than `slot`.
  std::size_t rank(std::int32_t slot) const {
    const std::size_t word = word_of(slot);
    return before_[word] +
           static_cast<std::size_t>(std::popcount(words_[word] & (bit_of(slot) - 1)));
  }
  std::vector<std::int32_t> ascending() const {
    std::vector<std::int32_t> out;
    out.reserve(count_);
    append_to(out);
    return out;
  }

 private:
  std::vector<std::uint32_t> before_;  ///< number of slots in the preceding words
  std::uint32_t count_ = 0;
};

}  // namespace turnbench
