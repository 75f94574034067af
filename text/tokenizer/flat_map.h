#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace turnbench {

/// A hash map from 64-bit keys below 2^64 - 1 to small values, with open addressing and linear
/// probing.  Threads may share it if none writes.
template <typename Value>
class FlatMap {
 public:
  std::size_t size() const { return size_; }

  void reserve(std::size_t size) {
    std::size_t slots = std::max<std::size_t>(slots_.size(), 16);
    while (2 * size > slots) slots *= 2;
    if (slots > slots_.size()) resize(slots);
  }

  /// The value of `key`; inserted if it is missing.
  Value& operator[](std::uint64_t key) {
    reserve(size_ + 1);
    Slot& slot = slots_[place(key)];
    if (slot.key == kEmpty) {
      slot.key = key;
      ++size_;
    }
    return slot.value;
  }

  /// The value of `key`; null if it is missing.
  const Value* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key)];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::uint64_t hash = key * 0x9E3779B97F4A7C15ull;
    std::size_t i = (hash ^ (hash >> 32)) & mask;
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  void resize(std::size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace turnbench
