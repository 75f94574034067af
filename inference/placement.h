#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace turnbench {

/// Bytes moved between the tiers, and how the device cache served them.
struct Traffic {
  std::int64_t to_device_bytes = 0;   ///< keys and values fetched because a step reads them
  std::int64_t cache_fill_bytes = 0;  ///< blocks copied into the device cache after a step
  std::int64_t to_host_bytes = 0;     ///< rows written back
  std::int64_t hits = 0, misses = 0;  ///< tokens read, found in the device cache or not

  Traffic& operator+=(const Traffic& other);
};

/// The device cache of one KV set in one layer: blocks of consecutive slots under LRU or LFU.  Only
/// the accounting exists here; the rows themselves live in the KV cache.
class DeviceCache {
 public:
  enum class Rule { kLru, kLfu };
  /// Room for `tokens` / `block` blocks of `block` slots.
  DeviceCache(int tokens, int block, Rule rule);

  /// One step reads `slots` (ascending).  Tokens of resident blocks are hits, the others are
  /// fetched. Then the blocks that were read enter the cache, most read first (ties: lower block);
  /// a block that is placed newly costs a fill.  Under LRU the least recently read block leaves,
  /// under LFU the least often read (ties: least recently).  `token_bytes` is the size of one key
  /// and value.
  Traffic read(std::span<const std::int32_t> slots, std::int64_t token_bytes);

 private:
  struct Entry {
    std::int64_t uses = 0, last = 0;
  };
  int capacity_, block_;
  Rule rule_;
  std::int64_t clock_ = 0;
  std::map<int, Entry> resident_;
};

}  // namespace turnbench
