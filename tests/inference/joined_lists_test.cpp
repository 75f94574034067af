#include "inference/engine/joined_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/backends/backend.h"

namespace turnbench {
namespace {

/// Every head reads some tokens of sets with 70, 1 and 300 tokens, including the last one of each.
std::vector<std::vector<std::int32_t>> random_lists(std::span<const std::int32_t> tokens,
                                                    int per_set) {
  std::mt19937 random(7);
  std::vector<std::vector<std::int32_t>> out;
  for (const std::int32_t n : tokens) {
    for (int i = 0; i < per_set; ++i) {
      std::vector<std::int32_t>& list = out.emplace_back();
      for (std::int32_t slot = 0; slot < n; ++slot) {
        if (slot == n - 1 || random() % 5 == 0) list.push_back(slot);
      }
    }
  }
  return out;
}

const std::vector<std::int32_t> kTokens = {70, 1, 300};

TEST(JoinedLists, HaveEachTokenOnceWithTheHeadsThatReadIt) {
  const auto backend = test::make_backend(2);
  for (const int heads : {1, 2, 8}) {  // of each of 4 lists
    const auto lists = random_lists(kTokens, 4);
    const std::vector<JoinedList> joined = join_lists(*backend, lists, {}, kTokens, heads);
    ASSERT_EQ(joined.size(), kTokens.size());
    for (std::size_t s = 0; s < joined.size(); ++s) {
      std::map<std::int32_t, std::uint32_t> want;
      for (int h = 0; h < 4 * heads; ++h) {
        for (const std::int32_t slot : lists[s * 4 + static_cast<std::size_t>(h / heads)])
          want[slot] |= std::uint32_t{1} << h;
      }
      std::map<std::int32_t, std::uint32_t> got;
      for (std::size_t i = 0; i < joined[s].slots.size(); ++i)
        got[joined[s].slots[i]] = joined[s].heads[i];
      EXPECT_EQ(got, want);
      EXPECT_TRUE(std::is_sorted(joined[s].slots.begin(), joined[s].slots.end()));
    }
  }
}

TEST(JoinedLists, AreInTokenOrderRegardlessOfPlacement) {
  const auto backend = test::make_backend(1);
  const auto lists = random_lists(kTokens, 3);
  std::vector<std::vector<std::int32_t>> places =
      lists;  // token t of list i is at 1000 i + 500 - t
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::int32_t& place : places[i]) place = static_cast<std::int32_t>(i) * 1000 + 500 - place;
  }
  const std::vector<JoinedList> plain = join_lists(*backend, lists, {}, kTokens, 1),
                                moved = join_lists(*backend, lists, places, kTokens, 1);
  for (std::size_t s = 0; s < plain.size(); ++s) {
    EXPECT_EQ(moved[s].heads, plain[s].heads);
    ASSERT_EQ(moved[s].slots.size(), plain[s].slots.size());
    for (std::size_t i = 0; i < plain[s].slots.size(); ++i) {
      const int place = moved[s].slots[i];
      EXPECT_EQ(500 - place % 1000, plain[s].slots[i]);
      EXPECT_EQ(static_cast<std::size_t>(place) / 1000 / 3, s);
    }
  }
}

}  // namespace
}  // namespace turnbench
