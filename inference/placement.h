#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace turnbench {

/// Traffic between host and device memory of a KV cache that is offloaded to the host.
struct Traffic {
  std::int64_t to_device_bytes = 0;   ///< keys and values that a decode step reads and that miss
  std::int64_t cache_fill_bytes = 0;  ///< blocks copied into the device cache after a step
  std::int64_t to_host_bytes = 0;     ///< keys and values of new tokens
  std::int64_t hits = 0, misses = 0;  ///< tokens read, by whether the device cache had them

  Traffic& operator+=(const Traffic& other);
};

/// A simulated device cache for one KV set in host memory: blocks of consecutive slots, replaced by
/// LRU or LFU.  It only counts traffic; the rows stay in the KV cache.
class DeviceCache {
 public:
  enum class Rule { kLru, kLfu };
  /// Holds `tokens` / `block` blocks of `block` slots.
  DeviceCache(int tokens, int block, Rule rule);

  /// Counts a decode step that reads `slots` (ascending).  Tokens of resident blocks are hits,
  /// others are fetched.  Then the blocks that were read enter the cache, those with the most
  /// tokens read first (ties: lower block); each newly placed block is a fill.  LRU replaces the
  /// least recently read block, LFU the least often read (ties: least recently).  token_bytes: of
  /// one key and value.
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
