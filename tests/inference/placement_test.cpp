#include "inference/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;

/// The device cache by the book, with nothing but lists: blocks with their number of uses, the most
/// recently used one last.
class Simulation {
 public:
  Simulation(int capacity, int block, bool lfu) : capacity_(capacity), block_(block), lfu_(lfu) {}

  Traffic read(const Ints& slots, std::int64_t token_bytes) {
    Traffic t;
    std::vector<std::pair<int, int>> counts;  // block, tokens read
    for (std::int32_t s : slots) {
      const int block = s / block_;
      const auto found = std::find_if(counts.begin(), counts.end(),
                                      [&](const auto& c) { return c.first == block; });
      if (found == counts.end()) {
        counts.emplace_back(block, 1);
      } else {
        ++found->second;
      }
      const bool hit = std::any_of(cache_.begin(), cache_.end(),
                                   [&](const auto& b) { return b.first == block; });
      ++(hit ? t.hits : t.misses);
      if (!hit) t.to_device_bytes += token_bytes;
    }
    std::sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    for (int i = 0; i < std::min(capacity_, static_cast<int>(counts.size())); ++i) {
      const int block = counts[static_cast<std::size_t>(i)].first;
      std::pair<int, int> entry{block, 1};
      const auto found = std::find_if(cache_.begin(), cache_.end(),
                                      [&](const auto& b) { return b.first == block; });
      if (found != cache_.end()) {
        entry.second = found->second + 1;
        cache_.erase(found);
      } else {
        if (static_cast<int>(cache_.size()) == capacity_) {
          auto leaves = cache_.begin();  // the least recent
          if (lfu_) {
            leaves =
                std::min_element(cache_.begin(), cache_.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
          }
          cache_.erase(leaves);
        }
        t.cache_fill_bytes += block_ * token_bytes;
      }
      cache_.push_back(entry);
    }
    return t;
  }

 private:
  int capacity_, block_;
  bool lfu_;
  std::vector<std::pair<int, int>> cache_;
};

void expect_equal(const Traffic& got, const Traffic& want, int step) {
  EXPECT_EQ(got.hits, want.hits) << step;
  EXPECT_EQ(got.misses, want.misses) << step;
  EXPECT_EQ(got.to_device_bytes, want.to_device_bytes) << step;
  EXPECT_EQ(got.cache_fill_bytes, want.cache_fill_bytes) << step;
  EXPECT_EQ(got.to_host_bytes, 0) << step;
}

TEST(DeviceCache, EqualsASimulation) {
  for (const auto rule : {DeviceCache::Rule::kLru, DeviceCache::Rule::kLfu}) {
    for (int capacity : {0, 1, 3, 8}) {
      DeviceCache cache(capacity * 4 + 3, 4, rule);  // what does not fill a block is not used
      Simulation want(capacity, 4, rule == DeviceCache::Rule::kLfu);
      std::mt19937 random(5);
      for (int step = 0; step < 400; ++step) {
        Ints slots;
        for (int s = 0; s < 80; ++s) {
          // Some blocks are read often, so that the two rules part ways.
          if (random() % (s % 20 < 8 ? 4 : 16) == 0) slots.push_back(s);
        }
        expect_equal(cache.read(slots, 256), want.read(slots, 256), step);
      }
    }
  }
}

/// Blocks of one token, room for two: whether a last read of each block hits.
std::vector<bool> resident_after(DeviceCache::Rule rule, const Ints& trace, int blocks) {
  std::vector<bool> out;
  for (int b = 0; b < blocks; ++b) {
    DeviceCache cache(2, 1, rule);
    for (std::int32_t slot : trace) cache.read(Ints{slot}, 1);
    out.push_back(cache.read(Ints{b}, 1).hits == 1);
  }
  return out;
}

// The worked traces of PQCache: capacity 2, insertions A, B, A, C; and A, A, B, C.
TEST(DeviceCache, WorkedTraces) {
  using Rule = DeviceCache::Rule;
  const std::vector<bool> a_and_c = {true, false, true}, b_and_c = {false, true, true};
  EXPECT_EQ(resident_after(Rule::kLfu, {0, 1, 0, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLru, {0, 1, 0, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLfu, {0, 0, 1, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLru, {0, 0, 1, 2}, 3), b_and_c);
}

// Four-token blocks, room for one: bytes to the last one.
TEST(DeviceCache, CountsBytes) {
  DeviceCache cache(4, 4, DeviceCache::Rule::kLru);
  Traffic t = cache.read(Ints{0, 1, 9}, 100);  // cold: three fetches; block 0 is read most
  EXPECT_EQ(t.hits, 0);
  EXPECT_EQ(t.to_device_bytes, 300);
  EXPECT_EQ(t.cache_fill_bytes, 400);
  t = cache.read(Ints{2, 3, 9}, 100);  // block 0 serves two
  EXPECT_EQ(t.hits, 2);
  EXPECT_EQ(t.misses, 1);
  EXPECT_EQ(t.to_device_bytes, 100);
  EXPECT_EQ(t.cache_fill_bytes, 0);
  t = cache.read(Ints{8, 9}, 100);  // block 2 takes its place
  EXPECT_EQ(t.to_device_bytes, 200);
  EXPECT_EQ(t.cache_fill_bytes, 400);
  Traffic sum;
  sum += t;
  sum += t;
  EXPECT_EQ(sum.misses, 4);
  EXPECT_EQ(sum.cache_fill_bytes, 800);
}

}  // namespace
}  // namespace turnbench
