// Selection methods against dense references and the specification's examples.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "prescribed.h"

namespace turnbench {
namespace {

using test::best;
using test::Layer;
using test::same_by_score;
using Ints = std::vector<std::int32_t>;

TEST(Oracle, EqualsTheExactTopOfTheMiddle) {
  for (int group : {1, 4}) {
    Layer layer(2, group, 32, 400, 1, 3);
    layer.prompt_tokens = 390;
    const Policies p = Method::parse("oracle:budget=0.2,sinks=16").make();
    const Selection got = p.selection->select(layer.view());
    // budget = floor((390 - 16) * 0.2) = 74, half of it local; the current token comes on top.
    const int local = 37, top = 37, begin = 16, end = 400 - 1 - local;
    for (int s = 0; s < 2; ++s) {
      std::vector<double> scores(400, 1e9);
      std::fill(scores.begin() + begin, scores.begin() + end, 0.0);
      for (int h = s * group; h < (s + 1) * group; ++h) {
        double mass = 0;
        for (int j = begin; j < end; ++j) mass += layer.probability(h, 399, j);
        for (int j = begin; j < end; ++j)
          scores[static_cast<std::size_t>(j)] += layer.probability(h, 399, j) / mass;
      }
      const Ints want = best(scores, 16 + top + local + 1);
      EXPECT_TRUE(same_by_score(got.slots[static_cast<std::size_t>(s)], want, scores));
    }
  }
}

TEST(Oracle, PureFormHoldsTheMostMass) {
  Layer layer(1, 1, 32, 300, 1, 9);
  layer.prompt_tokens = 299;
  const Policies pure = Method::parse("oracle:budget=40,sinks=0,local=0").make();
  const Ints set = pure.selection->select(layer.view()).slots[0];
  EXPECT_EQ(set.size(), 41u);  // the current token is free
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

// Section 19: what k tokens hold, more tokens hold, too.
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

// Section 0.1 of the specification of selection methods: logits (10, 0, 8) and (0, 9, 8).  The sum
// of the softmaxes ranks 0, 1, 2; the sum of the logits would rank 2 first.
TEST(Oracle, SumsProbabilitiesOverTheGroup) {
  const auto rows = [](std::vector<double> logits) {
    double sum = 0;
    for (double& x : logits) sum += x = std::exp(x);
    for (double& x : logits) x *= 0.9 / sum;
    return test::rows_like(logits);
  };
  test::PrescribedLayer layer({rows({10, 0, 8}), rows({0, 9, 8})});
  layer.prompt_tokens = 3;
  const auto read = [&](const char* spec) {
    return Method::parse(spec).make().selection->select(layer.view()).slots;
  };
  EXPECT_EQ(read("oracle:budget=1,sinks=0,local=0"), (std::vector<Ints>{{0, 3}}));
  EXPECT_EQ(read("oracle:budget=2,sinks=0,local=0"), (std::vector<Ints>{{0, 1, 3}}));
  EXPECT_EQ(read("oracle:budget=1,sinks=0,local=0,gran=query_head"),
            (std::vector<Ints>{{0, 3}, {1, 3}}));
}

TEST(Oracle, SmallPromptsAreReadWhole) {
  Layer layer(2, 2, 16, 40, 1, 3);
  layer.prompt_tokens = 39;
  const Policies p = Method::parse("oracle").make();
  for (const Ints& set : p.selection->select(layer.view()).slots) {
    // floor(7 * 0.2) = 1: no local token, one of the six candidates.
    EXPECT_EQ(set.size(), 34u);
  }
  const Policies all = Method::parse("oracle:budget=1000").make();
  for (const Ints& set : all.selection->select(layer.view()).slots) EXPECT_EQ(set.size(), 40u);
}

Ints loopserve_steps(const std::string& spec, int steps) {
  // The steps at which a new selection is made: the list is not the last one plus the new token.
  const Policies p = Method::parse(spec).make();
  Layer start(1, 2, 16, 200, 200, 4);
  p.selection->after_prefill(start.view());
  Ints out, last;
  for (int o = 1; o < steps; ++o) {
    Layer layer(1, 2, 16, 200 + o, 40, 4);
    layer.generated = o;
    const Selection s = p.selection->select(layer.view());
    if (s.all()) {
      EXPECT_LT(o, 16);
      continue;
    }
    last.push_back(200 + o - 1);
    if (s.slots[0] != last) out.push_back(o);
    last = s.slots[0];
    EXPECT_TRUE(std::binary_search(last.begin(), last.end(), 200 + o - 1))
        << "the current token is read";
  }
  return out;
}

// Section 8: re-selections for n_d = 32 and 100 outputs; the first 16 are dense.
TEST(LoopServeDecode, SelectsWhenItShould) {
  EXPECT_EQ(loopserve_steps("loopserve-decode:budget=64,n_d=32", 100), (Ints{16, 48, 80}));
  EXPECT_EQ(loopserve_steps("loopserve-decode:budget=64,n_d=16", 64), (Ints{16, 32, 48}));
}

// Section 8: n = 6, B = 3, n_d = 1; the observed token is read in any case.
TEST(LoopServeDecode, WorkedExample) {
  test::PrescribedLayer layer({test::rows_like({.5, .1, .2, .05, .1})});
  layer.generated = 16;
  for (const auto& [forced, want] : {std::pair("true", Ints{0, 2, 5}), {"false", Ints{0, 1, 2}}}) {
    const Policies p =
        Method::parse(fmt::format("loopserve-decode:budget=3,n_d=1,force_obs={}", forced)).make();
    p.selection->after_prefill(layer.view());
    EXPECT_EQ(p.selection->select(layer.view()).slots, std::vector<Ints>{want}) << forced;
  }
}

TEST(LoopServeDecode, EqualsTheDenseReference) {
  for (int group : {1, 4, 7}) {
    Layer layer(2, group, 64, 300, 20, 17);
    layer.generated = 16;
    const Policies p = Method::parse("loopserve-decode:budget=80,n_d=16").make();
    Layer prompt(2, group, 64, 284, 284, 17);
    p.selection->after_prefill(prompt.view());
    const Selection got = p.selection->select(layer.view());
    for (int s = 0; s < 2; ++s) {
      std::vector<double> scores(300, 1e9);
      for (int j = 0; j < 284; ++j) {
        scores[static_cast<std::size_t>(j)] = 0;
        for (int h = s * group; h < (s + 1) * group; ++h) {
          for (int i = 284; i < 300; ++i)
            scores[static_cast<std::size_t>(j)] += layer.probability(h, i, j);
        }
      }
      EXPECT_TRUE(same_by_score(got.slots[static_cast<std::size_t>(s)], best(scores, 80), scores));
    }
  }
}

TEST(LoopServeDecode, BudgetRules) {
  EXPECT_THROW(Method::parse("loopserve-decode:budget=16"), Error);
  const Policies p = Method::parse("loopserve-decode:budget=1000").make();
  Layer prompt(1, 1, 8, 50, 50, 1);
  p.selection->after_prefill(prompt.view());
  Layer layer(1, 1, 8, 66, 17, 1);
  layer.generated = 16;
  EXPECT_EQ(p.selection->select(layer.view()).slots[0].size(), 66u);
}

}  // namespace
}  // namespace turnbench
