// R-KV, compared with its official code and with a reference in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "methods/parts/key_similarity.h"
#include "tests/methods/made_steps.h"

namespace turnbench {
namespace {

using test::Layer;
using test::MadeSteps;
using test::Steps;
using Ints = std::vector<std::int32_t>;

std::vector<Ints> positions_of(const std::vector<KvHeadCache>& sets) {
  std::vector<Ints> out;
  for (const KvHeadCache& set : sets) {
    Ints& positions = out.emplace_back();
    for (int slot = 0; slot < set.size(); ++slot) positions.push_back(set.position(slot));
  }
  return out;
}

/// Calls the policy after the prompt and after each of `steps` steps, and keeps what it keeps.
/// Calls visit() each time.
template <typename Visit>
void decode(Steps& layer, EvictionPolicy& policy, int steps, const Visit& visit) {
  const auto keep = [&](const KeepSets& kept) {
    for (std::size_t s = 0; s < kept.slots.size(); ++s) layer.sets[s].keep(kept.slots[s]);
    visit();
  };
  layer.set_rows(policy.window());
  keep(policy.after_prefill(layer.view()));
  for (int i = 0; i < steps; ++i) {
    layer.step();
    layer.set_rows(policy.window());
    keep(policy.after_decode(layer.view()));
  }
}

TEST(RKv, KeepsTheTokensOfTheOfficialCode) {
  for (const Json& c : test::golden_of("rkv").at("cases")) {
    const auto spec =
        fmt::format("rkv:budget={},window={},kernel={},mix={},interval={}", c["budget"].get<int>(),
                    c["window"].get<int>(), c["kernel"].get<int>(), c["mix"].get<double>(),
                    c["interval"].get<int>());
    SCOPED_TRACE(spec);
    MadeSteps layer(c);
    const auto policy = Method::parse(spec).make().eviction;
    std::size_t compared = 0;
    decode(layer, *policy, c["steps"], [&] {
      if (compared == c["kept"].size() || c["kept"][compared][0] != layer.n) return;
      EXPECT_EQ(positions_of(layer.sets), c["kept"][compared][1].get<std::vector<Ints>>())
          << layer.n << " tokens";
      ++compared;
    });
    EXPECT_EQ(compared, c["kept"].size());
  }
}

TEST(RKv, EvictsOnlyWhenAnIntervalIsComplete) {
  Steps layer(2, 2, 8, 100, 180, 3);
  const auto policy = Method::parse("rkv:budget=60,interval=32").make().eviction;
  decode(layer, *policy, 80, [&] {
    // Prompt and answer are multiples of 32 after 128 and 160 tokens.
    const int evicted_at = layer.n >= 161 ? 161 : layer.n >= 129 ? 129 : 100;
    for (const KvHeadCache& set : layer.sets) EXPECT_EQ(set.size(), 60 + layer.n - evicted_at);
  });
}

TEST(RKv, WithModePrefillKeepsGeneratedTokens) {
  const Policies policies = Method::parse("rkv:budget=60,mode=prefill").make();
  EXPECT_FALSE(policies.evict_in_answers());
  EXPECT_TRUE(Method::parse("rkv:budget=60").make().evict_in_answers());
}

// An answer may be the first to exceed the budget, which is not the shorter prompt's length.
TEST(RKv, KeepsTheBudgetAfterAShortPrompt) {
  Steps layer(1, 2, 8, 40, 100, 4);
  const auto policy = Method::parse("rkv:budget=60,interval=10").make().eviction;
  decode(layer, *policy, 60, [&] {
    const int last = layer.n - (layer.n - 1) % 10;  // the last step that may evict
    EXPECT_EQ(layer.sets[0].size(), last <= 60 ? layer.n : 60 + layer.n - last);
  });
}

// With mix=1, only attention counts; tokens outside the sliding window of all rows have none.
TEST(RKv, TokensOutsideTheSlidingWindowHaveNoImportance) {
  Layer layer(1, 2, 8, 120, 8, 5);
  LayerView view = layer.view();
  view.sliding_window = 50;
  const auto policy = Method::parse("rkv:budget=40,kernel=1,mix=1").make().eviction;
  const KeepSets kept = policy->after_prefill(view);
  ASSERT_EQ(kept.slots[0].size(), 40u);
  EXPECT_GE(kept.slots[0][0], 120 - 8 - 50 + 1);
}

/// The definition in double precision, column by column.
std::vector<double> plain_sums(const std::vector<float>& keys, int n, int dims, double threshold) {
  std::vector<std::vector<double>> cosines(static_cast<std::size_t>(n));
  const auto dot = [&](int i, int j) {
    double out = 0;
    for (int d = 0; d < dims; ++d)
      out += static_cast<double>(keys[i * dims + d]) * keys[j * dims + d];
    return out;
  };
  for (int i = 0; i < n; ++i) {
    int last = 0;
    for (int j = 0; j < n; ++j) {
      const double x = i == j ? 0 : dot(i, j) / std::sqrt(dot(i, i) * dot(j, j));
      cosines[i].push_back(x);
      if (x > threshold) last = j;
    }
    cosines[i][last] = 0;
  }
  std::vector<double> out(static_cast<std::size_t>(n), 0);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) out[j] += cosines[i][j];
  }
  return out;
}

TEST(KeySimilarity, SumsEqualTheDefinition) {
  for (const int n : {1, 2, 63, 64, 65, 200}) {
    Layer layer(2, 2, 6, n, 1, 7);
    for (std::size_t s = 0; s < layer.sets.size(); ++s) {
      const std::vector<double> got = similarity_sums(layer.view(), layer.sets[s], 0.5f),
                                want = plain_sums(layer.keys[s], n, 6, 0.5);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t j = 0; j < want.size(); ++j)
        EXPECT_NEAR(got[j], want[j], 1e-4) << n << " keys, key " << j;
    }
  }
}

}  // namespace
}  // namespace turnbench
