#pragma once

#include <cstdint>
#include <vector>

namespace turnbench {

/// Host slots [begin, end) of a KV set.
struct SlotRange {
  std::int32_t begin = 0, end = 0;
};

/// A copy of the rows of `count` tokens of KV set `set` of a layer: from the host slots `host`,
/// host + 1, ... to the device slots `device`, device + 1, ...
struct SlotCopy {
  int set = 0;
  std::int32_t host = 0, device = 0, count = 0;
  bool operator==(const SlotCopy&) const = default;
};

/// Adds a copy, merged with the last one if it continues it.
inline void add_copy(std::vector<SlotCopy>& copies, const SlotCopy& copy) {
  if (copy.count == 0) return;
  if (!copies.empty()) {
    SlotCopy& last = copies.back();
    if (last.set == copy.set && last.host + last.count == copy.host &&
        last.device + last.count == copy.device) {
      last.count += copy.count;
      return;
    }
  }
  copies.push_back(copy);
}

}  // namespace turnbench
