// Eviction methods, compared with dense references and worked examples.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "layer.h"
#include "methods/method.h"
#include "prescribed.h"

namespace turnbench {
namespace {

using test::best;
using test::kept;
using test::Layer;
using test::same_by_score;
using Ints = std::vector<std::int32_t>;

// n = 10, B = 6, two sinks; then one rolling step.
TEST(StreamingLlm, WorkedExample) {
  const Policies p = Method::parse("streamingllm:budget=6,sinks=2").make();
  Layer ten(1, 1, 8, 10, 10, 1);
  EXPECT_EQ(p.eviction->after_prefill(ten.view()).slots, (std::vector<Ints>{{0, 1, 6, 7, 8, 9}}));
  // The cache now has six tokens and the new one: slot 2 (token 6) is the oldest that is not a
  // sink.
  Layer seven(1, 1, 8, 7, 1, 1);
  EXPECT_EQ(p.eviction->after_decode(seven.view()).slots, (std::vector<Ints>{{0, 1, 3, 4, 5, 6}}));
}

TEST(StreamingLlm, KeepsAllWithinItsBudget) {
  Layer layer(2, 2, 8, 10, 10, 1);
  EXPECT_TRUE(kept("streamingllm:budget=10", layer).empty());
  EXPECT_THROW(Method::parse("streamingllm:budget=4"), Error);
  EXPECT_THROW(kept("streamingllm:budget=0.3", layer), Error);
}

/// A reference of SnapKV: window sums, mean over the group, pooling, top-k, and the window.
struct SnapReference {
  SnapReference(Layer& layer, int set, int heads, int budget, int window, int kernel,
                bool max_pool) {
    const int m = layer.n - window;
    std::vector<double> s(static_cast<std::size_t>(m), 0);
    for (int h = set * heads; h < (set + 1) * heads; ++h) {
      for (int i = m; i < layer.n; ++i) {
        for (int j = 0; j < m; ++j) s[j] += layer.probability(h, i, j) / heads;
      }
    }
    for (int j = 0; j < m; ++j) {
      double x = max_pool ? -1 : 0;
      for (int k = j - kernel / 2; k <= j + kernel / 2; ++k) {
        if (k < 0 || k >= m) continue;
        x = max_pool ? std::max(x, s[k]) : x + s[k] / kernel;
      }
      scores.push_back(x);
    }
    slots = best(scores, budget - window);
    scores.resize(static_cast<std::size_t>(layer.n), 1e9);
    for (int j = m; j < layer.n; ++j) slots.push_back(j);
  }
  std::vector<double> scores;
  Ints slots;
};

TEST(SnapKv, EqualsTheDenseReference) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {63, 64, 65, 300}) {
        Layer layer(2, group, head_dim, n, n, seed += 1000);
        const int budget = n / 2 + 4;
        for (const bool max_pool : {true, false}) {
          const std::string spec = fmt::format("snapkv:budget={},window=16,kernel=5,pool={}",
                                               budget, max_pool ? "max" : "avg");
          const auto per_kv = kept(spec, layer), per_query = kept(spec + ",gran=query_head", layer);
          ASSERT_EQ(per_kv.size(), 2u);
          ASSERT_EQ(per_query.size(), static_cast<std::size_t>(2 * group));
          for (int s = 0; s < 2; ++s) {
            const SnapReference want(layer, s, group, budget, 16, 5, max_pool);
            EXPECT_TRUE(same_by_score(per_kv[s], want.slots, want.scores)) << n << " " << group;
          }
          for (int h = 0; h < 2 * group; ++h) {
            const SnapReference want(layer, h, 1, budget, 16, 5, max_pool);
            EXPECT_TRUE(same_by_score(per_query[h], want.slots, want.scores));
          }
        }
      }
    }
  }
}

TEST(SnapKv, BudgetAndWindow) {
  Layer layer(2, 2, 16, 100, 100, 5);
  for (const Ints& set : kept("snapkv:budget=40,window=8", layer)) {
    EXPECT_EQ(set.size(), 40u);
    for (int j = 92; j < 100; ++j) EXPECT_TRUE(std::binary_search(set.begin(), set.end(), j));
  }
  for (const Ints& set : kept("snapkv:budget=0.25,window=8", layer)) EXPECT_EQ(set.size(), 25u);
  for (const Ints& set : kept("snapkv:budget=100,window=8", layer)) EXPECT_EQ(set.size(), 100u);
  EXPECT_THROW(Method::parse("snapkv:budget=32"), Error);
  EXPECT_THROW(Method::parse("snapkv:kernel=4"), Error);
}

// A turn shorter than the window computes scores from its rows only.
TEST(SnapKv, ShortTurnScoresWithItsOwnRows) {
  Layer layer(1, 2, 16, 100, 5, 5);
  const auto got = kept("snapkv:budget=40,window=8,pool=none", layer);
  std::vector<double> scores(92, 0);
  for (int h = 0; h < 2; ++h) {
    for (int i = 95; i < 100; ++i) {
      for (int j = 0; j < 92; ++j) scores[j] += layer.probability(h, i, j) / 2;
    }
  }
  Ints want = best(scores, 32);
  for (int j = 92; j < 100; ++j) want.push_back(j);
  EXPECT_EQ(got[0], want);
}

}  // namespace
}  // namespace turnbench
