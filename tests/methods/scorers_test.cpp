// AdaKV over other methods' scores: the joint top-k of a layer, whoever scores its tokens.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "prescribed.h"

namespace turnbench {
namespace {

using namespace test;

constexpr int kScorerWindow = 8;

/// Rows whose attention a scorer sums, from the first to the last.
int first_row(const std::string& scorer, int n) {
  return scorer == "h2o" ? 0 : scorer == "tova" ? n - 1 : n - kScorerWindow;
}

// Without a floor, head h keeps its members of the layer's H (B - w) best tokens.
TEST(AdaKv, DividesTheJointTopKOfAnyScores) {
  for (const char* scorer : {"snapkv", "h2o", "tova"}) {
    for (const auto& [group, per_head] : {std::pair(1, false), {4, false}, {4, true}}) {
      for (int n : {63, 64, 65, 300}) {
        Layer layer(2, group, 64, n, n, 40 + static_cast<std::uint64_t>(n));
        const int budget = n / 3, m = n - kScorerWindow, heads = per_head ? 1 : group;
        const auto sets = static_cast<std::size_t>(2 * group / heads);
        const auto got =
            kept(fmt::format("adakv:scorer={},budget={},window=8,floor_alpha=0,pool=none,gran={}",
                             scorer, budget, per_head ? "query_head" : "kv_head"),
                 layer);
        ASSERT_EQ(got.size(), sets);
        std::vector<double> joint;
        for (std::size_t s = 0; s < sets; ++s) {
          const auto own =
              summed(layer, static_cast<int>(s) * heads, heads, first_row(scorer, n), m);
          joint.insert(joint.end(), own.begin(), own.end());
        }
        const Ints want = best(joint, static_cast<int>(sets) * (budget - kScorerWindow));
        Ints chosen;
        for (std::size_t s = 0; s < sets; ++s) {
          for (int j : got[s]) {
            if (j < m) chosen.push_back(static_cast<int>(s) * m + j);
          }
          for (int j = m; j < n; ++j)
            EXPECT_TRUE(std::binary_search(got[s].begin(), got[s].end(), j));
        }
        EXPECT_TRUE(same_by_score(chosen, want, joint)) << scorer << " " << n << " " << group;
      }
    }
  }
}

// With a floor of everything it is the scorer's own method, for each head by itself.
TEST(AdaKv, FloorOfOneEqualsTheScorersMethod) {
  Layer layer(4, 2, 64, 300, 300, 9);
  const std::string ada = "adakv:budget=64,window=8,floor_alpha=1,gqa_agg=sum,scorer=";
  EXPECT_EQ(kept(ada + "snapkv", layer), kept("snapkv:budget=64,window=8,gqa_agg=sum", layer));
  EXPECT_EQ(kept(ada + "h2o", layer), kept("h2o:budget=64,mode=prefill,window=8", layer));
  EXPECT_EQ(kept(ada + "keyformer", layer), kept("keyformer:budget=65,recent=9", layer));
  Layer one(1, 2, 64, 300, 300, 9);  // TOVA has one set for all heads of a layer
  EXPECT_EQ(kept("adakv:budget=64,window=1,gqa_agg=mean,scorer=tova", one)[0],
            kept("tova:budget=64,protect_last=true", one)[0]);
}

// What a scorer does not read is not computed: the window pass of SnapKV, the second pass of H2O.
TEST(AdaKv, RequestsOnlyItsScorersStatistics) {
  const auto policy = [](const char* scorer) {
    return Method::parse(fmt::format("adakv:window=8,scorer={}", scorer)).make();
  };
  EXPECT_EQ(policy("snapkv").eviction->window(), 8);
  EXPECT_TRUE(policy("snapkv").eviction->columns().empty());
  EXPECT_EQ(policy("tova").eviction->window(), 1);
  EXPECT_EQ(policy("h2o").eviction->window(), 0);
  EXPECT_EQ(policy("h2o").eviction->columns(), std::vector<ColumnRule>(1));
  EXPECT_TRUE(policy("keyformer").eviction->columns()[0].gumbel);
}

}  // namespace
}  // namespace turnbench
