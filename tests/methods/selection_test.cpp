// The oracle, compared with dense references and worked examples.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/parts/block_selection.h"
#include "prescribed.h"

namespace turnbench {
namespace {

using test::best;
using test::Layer;
using test::same_by_score;
using Ints = std::vector<std::int32_t>;

TEST(Oracle, EqualsTheExactTopOfTheMiddle) {
  for (int group : {1, 4}) {
    for (const bool all : {true, false}) {
      Layer layer(2, group, 32, 400, 1, 3);
      layer.prompt_tokens = 390;
      const Policies p = Method::parse(fmt::format("oracle:budget=0.2,sinks=16,norm={}",
                                                   all ? "all" : "candidates"))
                             .make();
      const Selection got = p.selection->select(layer.view());
      // budget = floor((390 - 16) * 0.2) = 74, half of it local; the current token is additional.
      const int local = 37, top = 37, begin = 16, end = 400 - 1 - local;
      for (int s = 0; s < 2; ++s) {
        std::vector<double> scores(400, 1e9);
        std::fill(scores.begin() + begin, scores.begin() + end, 0.0);
        for (int h = s * group; h < (s + 1) * group; ++h) {
          double mass = 0;
          for (int j = begin; j < end; ++j) mass += layer.probability(h, 399, j);
          for (int j = begin; j < end; ++j)
            scores[j] += layer.probability(h, 399, j) / (all ? 1 : mass);
        }
        const Ints want = best(scores, 16 + top + local + 1);
        EXPECT_TRUE(same_by_score(got.slots[s], want, scores));
      }
    }
  }
}

/// Represents a block by its first or its last key.
template <bool kFirst>
struct OneKey : BlockSelection {
  OneKey() : BlockSelection({.budget = {.value = 40}, .block = 8, .sinks = 8}) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<OneKey>(*this);
  }
  void vector_of(MatrixView<const float> keys, std::span<float> out) const override {
    std::copy_n(keys.row(kFirst ? 0 : keys.rows - 1), out.size(), out.begin());
  }
  std::string vectors() const override { return "one key"; }
};

// Sequences share vectors over the memo of their prompt.
TEST(BlockSelectionClasses, ShareNoVectorsWithEachOther) {
  Layer layer(2, 2, 32, 400, 1, 3), other(2, 2, 32, 400, 1, 3);
  OneKey<true> first;
  OneKey<false> last, alone;
  const LayerView view = layer.view();
  first.after_prefill(view);
  last.after_prefill(view);
  alone.after_prefill(other.view());
  const auto slots = last.select(layer.view()).slots;
  EXPECT_EQ(slots, alone.select(other.view()).slots);
  EXPECT_NE(slots, first.select(layer.view()).slots);
}

// Heads (.98, .015, .005) and (.1, .3, .6), the first key a sink: a head that attends to the sink
// counts little (.315 against .605), or, over the candidates only, as much as the other (1.083
// against .917).
TEST(Oracle, NormalizesOverAllKeysOrOverTheCandidates) {
  test::PrescribedLayer layer({test::rows_like({.98, .015, .005}), test::rows_like({.1, .3, .6})},
                              /*kv_heads=*/1, /*pass_rows=*/1);
  layer.prompt_tokens = 3;
  const auto read = [&](const std::string& settings) {
    const std::string spec = "oracle:budget=2,sinks=1,local=0" + settings;
    return Method::parse(spec).make().selection->select(layer.view()).slots;
  };
  EXPECT_EQ(read(""), (std::vector<Ints>{{0, 2, 3}}));
  EXPECT_EQ(read(",norm=all"), (std::vector<Ints>{{0, 2, 3}}));
  EXPECT_EQ(read(",norm=candidates"), (std::vector<Ints>{{0, 1, 3}}));
}

// 411 tokens, 32 of them sinks: floor(0.2 * 379) = 75, of which 37 are recent and 37 the best.
TEST(Oracle, RoundsBothHalvesDown) {
  Layer layer(1, 1, 32, 412, 1, 3);
  layer.prompt_tokens = 411;
  const auto read = [&](const char* spec) {
    return Method::parse(spec).make().selection->select(layer.view()).slots[0];
  };
  const Ints half = read("oracle:budget=0.2");
  EXPECT_EQ(half.size(), 32u + 37 + 37 + 1);
  EXPECT_FALSE(std::binary_search(half.begin(), half.end(), 411 - 38));
  for (int j = 411 - 37; j <= 411; ++j)
    EXPECT_TRUE(std::binary_search(half.begin(), half.end(), j)) << j;
  EXPECT_EQ(read("oracle:budget=0.2,local=0").size(), 32u + 75 + 1);
  EXPECT_EQ(read("oracle:budget=0.2,local=1").size(), 32u + 75 + 1);
}

TEST(Oracle, PureFormHoldsTheMostMass) {
  Layer layer(1, 1, 32, 300, 1, 9);
  layer.prompt_tokens = 299;
  const Policies pure = Method::parse("oracle:budget=40,sinks=0,local=0").make();
  const Ints set = pure.selection->select(layer.view()).slots[0];
  EXPECT_EQ(set.size(), 41u);  // the current token is not counted
  const auto mass = [&](const Ints& slots) {
    double sum = 0;
    for (int j : slots) sum += layer.probability(0, 299, j);
    return sum;
  };
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::set<int> other{299};
    while (other.size() < 41) other.insert(static_cast<int>(random() % 299));
    EXPECT_LE(mass(Ints(other.begin(), other.end())), mass(set) + 1e-9);
  }
}

// More tokens have at least the mass of fewer tokens.
TEST(Oracle, IsMonotoneInK) {
  Layer layer(2, 2, 32, 200, 1, 9);
  layer.prompt_tokens = 199;
  std::vector<Ints> last;
  for (int k : {1, 2, 10, 50, 199}) {
    const Policies p = Method::parse(fmt::format("oracle:budget={},sinks=0,local=0", k)).make();
    const std::vector<Ints> sets = p.selection->select(layer.view()).slots;
    for (std::size_t s = 0; s < last.size(); ++s) {
      EXPECT_TRUE(std::includes(sets[s].begin(), sets[s].end(), last[s].begin(), last[s].end()));
    }
    EXPECT_EQ(sets[0].size(), static_cast<std::size_t>(k + 1));
    last = sets;
  }
}

// Logits (10, 0, 8) and (0, 9, 8).  The sum of the softmaxes ranks 0, 1, 2; the sum of the logits
// would rank 2 first.
TEST(Oracle, SumsProbabilitiesOverTheGroup) {
  const auto rows = [](std::vector<double> logits) {
    double sum = 0;
    for (double& x : logits) sum += x = std::exp(x);
    for (double& x : logits) x *= 0.9 / sum;
    return test::rows_like(logits);
  };
  test::PrescribedLayer layer({rows({10, 0, 8}), rows({0, 9, 8})}, /*kv_heads=*/1, /*pass_rows=*/1);
  layer.prompt_tokens = 3;
  const auto read = [&](const char* spec) {
    return Method::parse(spec).make().selection->select(layer.view()).slots;
  };
  EXPECT_EQ(read("oracle:budget=1,sinks=0,local=0"), (std::vector<Ints>{{0, 3}}));
  EXPECT_EQ(read("oracle:budget=2,sinks=0,local=0"), (std::vector<Ints>{{0, 1, 3}}));
  EXPECT_EQ(read("oracle:budget=1,sinks=0,local=0,gran=query_head"),
            (std::vector<Ints>{{0, 3}, {1, 3}}));
}

TEST(Oracle, SmallPromptsAreReadCompletely) {
  Layer layer(2, 2, 16, 40, 1, 3);
  layer.prompt_tokens = 39;
  const Policies p = Method::parse("oracle").make();
  for (const Ints& set : p.selection->select(layer.view()).slots) {
    // floor(7 * 0.2) = 1, half of which is 0.
    EXPECT_EQ(set.size(), 33u);
  }
  // A share of 1 covers all tokens, although half of 7 is 3.
  const Policies whole = Method::parse("oracle:budget=100%").make();
  for (const Ints& set : whole.selection->select(layer.view()).slots) EXPECT_EQ(set.size(), 40u);
  const Policies all = Method::parse("oracle:budget=1000").make();
  for (const Ints& set : all.selection->select(layer.view()).slots) EXPECT_EQ(set.size(), 40u);
}

}  // namespace
}  // namespace turnbench
