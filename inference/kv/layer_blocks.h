#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/kv/residency.h"

namespace turnbench {

/// Cached blocks that all KV sets of a layer share: entry e has the device slots from first_slot(e)
/// on in every set.
class LayerBlocks : public Residency {
 protected:
  struct Entry {
    std::int32_t block = -1;  // -1: free
    std::int64_t uses = 0;    // kLfu: insertions
    std::int64_t last = 0;    // time of the last insertion or selection
    bool placed = false;      // in this step
  };

  LayerBlocks(const Options& options, std::int32_t device_slots)
      : Residency(options, device_slots),
        entries_(static_cast<std::size_t>(block_capacity())),
        rows_(entries_.size() * static_cast<std::size_t>(options.sets)) {}

  /// The entry of a block; -1 if it is not cached.
  std::int32_t entry_of(std::int32_t block) const {
    const auto b = static_cast<std::size_t>(block);
    return b < entry_of_.size() ? entry_of_[b] : -1;
  }
  Entry& entry(std::int32_t e) { return entries_[e]; }
  std::vector<Entry>& entries() { return entries_; }
  std::int32_t first_slot(std::int32_t e) const {
    return options().pinned_tokens + e * options().block;
  }
  /// The number of copied rows of an entry in one set.
  std::int32_t& rows(std::int32_t e, int set) {
    return rows_[static_cast<std::size_t>(e) * static_cast<std::size_t>(options().sets) +
                 static_cast<std::size_t>(set)];
  }

  /// The device slot of a token; -1 if it is not on the device.
  std::int32_t slot_of(std::int32_t token, int set) {
    const std::int32_t block = block_of(token), e = entry_of(block), row = token - begin_of(block);
    return e >= 0 && row < rows(e, set) ? first_slot(e) + row : -1;
  }
  void put(std::int32_t block, std::int32_t e) {
    const auto b = static_cast<std::size_t>(block);
    if (b >= entry_of_.size()) entry_of_.resize(b + 1, -1);
    entry_of_[b] = e;
    entry(e) = {.block = block};
    for (int s = 0; s < options().sets; ++s) rows(e, s) = 0;
  }
  void remove(std::int32_t e) {
    entry_of_[entry(e).block] = -1;
    entry(e) = {};
  }
  /// Copies the rows of all sets by which the block of an entry has grown.
  void copy_grown(std::int32_t e, std::span<const std::int32_t> tokens,
                  std::vector<SlotCopy>& out) {
    const std::int32_t block = entry(e).block;
    for (int s = 0; s < options().sets; ++s) {
      const std::int32_t count = rows_of(block, tokens[s]), copied = std::min(rows(e, s), count);
      if (count == copied) continue;
      rows(e, s) = count;
      add_copy(out, {s, begin_of(block) + copied, first_slot(e) + copied, count - copied});
    }
  }

  void truncate_blocks(std::span<const std::int32_t> tokens) override {
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      const std::int32_t block = entry(e).block;
      if (block < 0) continue;
      std::int32_t left = 0;
      for (int s = 0; s < options().sets; ++s) {
        std::int32_t& copied = rows(e, s);
        copied = std::min(copied, rows_of(block, tokens[s]));
        left += copied;
      }
      if (left == 0) remove(e);
    }
  }

 private:
  std::vector<Entry> entries_;
  std::vector<std::int32_t> rows_;      // [entries, sets]
  std::vector<std::int32_t> entry_of_;  // [blocks]: -1 or an entry
};

}  // namespace turnbench
