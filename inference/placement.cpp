#include "inference/placement.h"

#include <algorithm>

namespace turnbench {

Traffic& Traffic::operator+=(const Traffic& other) {
  to_device_bytes += other.to_device_bytes;
  cache_fill_bytes += other.cache_fill_bytes;
  to_host_bytes += other.to_host_bytes;
  hits += other.hits;
  misses += other.misses;
  return *this;
}

DeviceCache::DeviceCache(int tokens, int block, Rule rule)
    : capacity_(tokens / block), block_(block), rule_(rule) {}

Traffic DeviceCache::read(std::span<const std::int32_t> slots, std::int64_t token_bytes) {
  Traffic traffic;
  std::map<int, int> reads;  // block -> tokens read from it
  for (std::int32_t slot : slots) {
    const int block = slot / block_;
    ++reads[block];
    ++(resident_.contains(block) ? traffic.hits : traffic.misses);
  }
  traffic.to_device_bytes = traffic.misses * token_bytes;
  std::vector<std::pair<int, int>> order(reads.begin(), reads.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int>(order.size()) > capacity_) order.resize(static_cast<std::size_t>(capacity_));
  for (const auto& [block, count] : order) {
    const auto found = resident_.find(block);
    if (found != resident_.end()) {
      ++found->second.uses;
      found->second.last = ++clock_;
      continue;
    }
    if (static_cast<int>(resident_.size()) == capacity_) {
      const auto worse = [&](const auto& a, const auto& b) {
        if (rule_ == Rule::kLfu && a.second.uses != b.second.uses) {
          return a.second.uses < b.second.uses;
        }
        return a.second.last < b.second.last;
      };
      resident_.erase(std::min_element(resident_.begin(), resident_.end(), worse));
    }
    resident_[block] = {1, ++clock_};
    traffic.cache_fill_bytes += block_ * token_bytes;
  }
  return traffic;
}

}  // namespace turnbench
