// H2O, Keyformer and TOVA: methods that score tokens by the attention they received so far.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/error.h"
#include "prescribed.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

const Rows kExample = {{1}, {.7, .3}, {.5, .2, .3}, {.4, .1, .3, .2}, {.3, .1, .1, .2, .3}};

// F = [2.9, .7, .7, .4, .3].
TEST(H2o, WorkedExample) {
  PrescribedLayer layer({kExample});
  const auto& mass = layer.stats->column_mass();
  EXPECT_EQ(mass.rows, 5);
  const std::vector<float> want = {2.9f, .7f, .7f, .4f, .3f};
  for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(mass.scores.head(0, 5)[j], want[j], 1e-5) << j;
  EXPECT_EQ(kept("h2o:budget=3,recent=2", layer)[0], (Ints{0, 3, 4}));
  EXPECT_EQ(kept("h2o:budget=5,recent=2", layer)[0], (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept("h2o:mode=prefill,budget=3,window=2", layer)[0], (Ints{0, 3, 4}));
}

// F = [1.2, 1.7, 1.6, .4, .1]: sinks stay, regardless of their mass.
TEST(H2o, SinksAreKept) {
  PrescribedLayer layer(
      {{{1}, {.05, .95}, {.05, .25, .7}, {.05, .25, .5, .2}, {.05, .25, .4, .2, .1}}});
  EXPECT_EQ(kept("h2o:budget=3,recent=1", layer)[0], (Ints{1, 2, 4}));
  EXPECT_EQ(kept("h2o:budget=3,recent=1,sinks=1", layer)[0], (Ints{0, 1, 4}));
  EXPECT_EQ(kept("h2o:budget=3,mode=prefill,window=1,sinks=2", layer)[0], (Ints{0, 1, 4}));
  EXPECT_EQ(kept("h2o:budget=75%,sinks=1", layer)[0], (Ints{0, 1, 4})) << "of 4 tokens, even";
  EXPECT_EQ(kept("h2o:budget=100%,sinks=1", layer)[0].size(), 5u);
  EXPECT_EQ(kept("h2o:budget=3,recent=2,sinks=1", layer)[0], (Ints{0, 3, 4}));
}

// Slots 1 and 2 tie except for rounding; equal logits tie exactly, and the lower slot stays.
TEST(H2o, TiesGoToTheLowerSlot) {
  PrescribedLayer layer({kExample});
  EXPECT_TRUE(equal_by_score(kept("h2o:budget=4,recent=2", layer)[0], {0, 1, 3, 4},
                             {2.9, .7, .7, .4, .3}, 5));
  PrescribedLayer even({{{1}, {.5, .5}, {.3, .3, .4}, {.25, .25, .25, .25}}});
  EXPECT_EQ(kept("tova:budget=2", even)[0], (Ints{0, 1}));
}

TEST(H2o, MassOfARowIsOne) {
  for (int n : {1, 63, 64, 65, 300}) {
    Layer layer(2, 2, 64, n, n, 5);
    for (int h = 0; h < 4; ++h) {
      double sum = 0;
      for (float x : layer.stats->column_mass().scores.head(h, n)) sum += x;
      EXPECT_NEAR(sum, n, 1e-5 * n);
    }
  }
}

TEST(H2o, EqualsTheDenseReference) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {1, 63, 64, 65, group == 1 ? 1000 : 200}) {
        Layer layer(2, group, head_dim, n, n, seed += 1000);
        const int budget = n / 2 + 4, recent = n / 4 + 1;
        const auto dynamic = kept(fmt::format("h2o:budget={},recent={}", budget, recent), layer);
        const auto prompt =
            kept(fmt::format("h2o:mode=prefill,budget={},window={},gran=query_head,norm=true",
                             budget, recent),
                 layer);
        ASSERT_EQ(prompt.size(), static_cast<std::size_t>(2 * group));
        if (n <= budget) continue;
        for (int s = 0; s < 2; ++s) {
          const auto scores = summed(layer, s * group, group, 0, n - recent);
          EXPECT_TRUE(equal_by_score(
              dynamic[s], and_tail(best(scores, budget - recent), n - recent, n), scores, n))
              << n;
        }
        for (int h = 0; h < 2 * group; ++h) {
          auto scores = summed(layer, h, 1, 0, n - recent);
          for (int j = 0; j < n - recent; ++j) scores[j] /= n - j;
          EXPECT_TRUE(equal_by_score(
              prompt[h], and_tail(best(scores, budget - recent), n - recent, n), scores, n))
              << n;
        }
      }
    }
  }
}

/// Attention of query head h to key j, in double precision and with the complete matrix: of rows
/// [0, n - w) over all n keys, and of the last w rows over keys up to their own position.
std::vector<double> summed_under_a_corner(const Layer& layer, int h, int w) {
  const int n = layer.n, d = layer.shape.head_dim;
  const std::vector<float>& keys = layer.keys[h / layer.shape.group()];
  std::vector<double> out(static_cast<std::size_t>(n), 0);
  for (int i = 0; i < n; ++i) {
    const int seen = i < n - w ? n : i + 1;
    std::vector<double> row;
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < seen; ++j) {
      double dot = 0;
      for (int x = 0; x < d; ++x)
        dot += static_cast<double>(layer.queries[(i * layer.shape.heads + h) * d + x]) *
               keys[j * d + x];
      top = std::max(top, row.emplace_back(dot / std::sqrt(static_cast<double>(d))));
    }
    for (double& x : row) sum += x = std::exp(x - top);
    for (std::size_t j = 0; j < row.size(); ++j) out[j] += row[j] / sum;
  }
  return out;
}

// mask=corner: only the square of the last rows and keys is causal.
TEST(H2o, UnderACornerMaskEqualsTheDenseReference) {
  std::uint64_t seed = 3;
  for (int group : {1, 4}) {
    for (int n : {9, 64, 65, 200}) {
      const int w = 8, budget = n / 3 + w;
      Layer layer(2, group, 64, n, n, seed += 1000);
      const auto& mass = layer.stats->column_mass({.causal_rows = w});
      EXPECT_EQ(mass.rows, n);
      const std::string spec =
          fmt::format("h2o:mode=prefill,budget={},window=8,mask=corner", budget);
      const auto sets = kept(spec, layer), heads = kept(spec + ",gran=query_head", layer);
      double moved = 0;  // by the mask
      for (int s = 0; s < 2; ++s) {
        std::vector<double> of_group(static_cast<std::size_t>(n - w), 0);
        for (int h = s * group; h < (s + 1) * group; ++h) {
          const std::vector<double> want = summed_under_a_corner(layer, h, w),
                                    causal = summed(layer, h, 1, 0, n);
          const auto got = mass.scores.head(h, n);
          for (std::size_t j = 0; j < want.size(); ++j) {
            EXPECT_NEAR(got[j], want[j], 1e-5 * n) << n << " " << h << " " << j;
            moved += std::abs(want[j] - causal[j]);
          }
          std::vector<double> scores(want.begin(), want.end() - w);
          for (std::size_t j = 0; j < scores.size(); ++j) of_group[j] += scores[j];
          EXPECT_TRUE(
              equal_by_score(heads[h], and_tail(best(scores, budget - w), n - w, n), scores, n));
        }
        EXPECT_TRUE(
            equal_by_score(sets[s], and_tail(best(of_group, budget - w), n - w, n), of_group, n));
      }
      EXPECT_GT(moved, 0.5) << n;
    }
  }
}

// If the window is the whole prompt, no row attends to later keys.
TEST(H2o, CornerOfTheWholePromptIsCausal) {
  Layer layer(2, 2, 64, 70, 70, 5);
  const HeadScores causal = layer.stats->column_mass().scores,
                   corner = layer.stats->column_mass({.causal_rows = 70}).scores;
  for (std::size_t i = 0; i < causal.data.size(); ++i)
    EXPECT_NEAR(corner.data[i], causal.data[i], 1e-4) << i;
}

TEST(H2o, SeesLaterKeysOnlyInAWholePrompt) {
  EXPECT_NE(Method::parse("h2o:mask=corner").make().prefill, nullptr);
  EXPECT_EQ(Method::parse("h2o").make().prefill, nullptr);
  EXPECT_THROW(Method::parse("minference+h2o:mask=corner"), Error);
  EXPECT_THROW(Method::parse("h2o:mask=corner,norm=true"), Error);
  Layer layer(1, 1, 64, 70, 20, 5);
  ColumnMasses before;
  before.by_rule[{.causal_rows = 8}].rows = 50;
  AttentionStats stats(*layer.backend, layer.shape, 0.125f, 0, layer.sets,
                       {layer.query_rows().rows_at(50, 20), layer.positions.data() + 50},
                       &layer.tail, &before);
  EXPECT_THROW(stats.column_mass({.causal_rows = 8}), Error);
}

/// Reference of H2O, step by step over a growing given matrix: F of the kept tokens, the row
/// normalised over the cached tokens; the lowest token that is not recent is evicted.
struct DynamicReference {
  DynamicReference(const Rows& rows, int prompt, int budget, int recent) : rows(rows) {
    for (int i = 0; i < prompt; ++i) step(i, i + 1 == prompt ? budget : prompt, recent);
    this->budget = budget;
    this->recent = recent;
  }
  void step(int i, int limit, int keep_recent) {
    cached.push_back(i);
    mass.push_back(0);
    const auto& row = rows[i];
    double sum = 0;
    for (int j : cached) sum += row[j];
    for (std::size_t c = 0; c < cached.size(); ++c) mass[c] += row[cached[c]] / sum;
    while (static_cast<int>(cached.size()) > limit) {
      std::size_t worst = 0;
      for (std::size_t c = 0; c + static_cast<std::size_t>(keep_recent) < cached.size(); ++c) {
        if (mass[c] <= mass[worst]) worst = c;
      }
      cached.erase(cached.begin() + static_cast<std::ptrdiff_t>(worst));
      mass.erase(mass.begin() + static_cast<std::ptrdiff_t>(worst));
    }
  }
  const Rows& rows;
  int budget = 0, recent = 0;
  std::vector<int> cached;
  std::vector<double> mass;
};

/// One head's layer over the cached positions, the last `pass_rows` of which are new.
std::unique_ptr<PrescribedLayer> layer_over(const Rows& rows, const std::vector<int>& cached,
                                            int pass_rows) {
  Rows small;
  for (std::size_t c = 0; c < cached.size(); ++c) {
    std::vector<double> out;
    for (std::size_t j = 0; j <= c; ++j) out.push_back(rows[cached[c]][cached[j]]);
    small.push_back(out);
  }
  return std::make_unique<PrescribedLayer>(std::vector<Rows>{small}, 1, pass_rows);
}

/// Positions of the kept slots.
std::vector<int> those(const std::vector<int>& cached, const KeepSets& kept) {
  std::vector<int> out;
  for (int slot : kept.slots[0]) out.push_back(cached[slot]);
  return out;
}

TEST(H2o, DecodesLikeTheReference) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0.01, 1);
  Rows rows;
  for (int i = 0; i < 60; ++i) {
    std::vector<double> row;
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += row.emplace_back(std::pow(uniform(random), 3));
    for (double& x : row) x /= sum;
    rows.push_back(row);
  }
  const int prompt = 20;
  DynamicReference reference(rows, prompt, 10, 4);
  const Policies p = Method::parse("h2o:budget=10,recent=4").make();
  PrescribedLayer start({Rows(rows.begin(), rows.begin() + prompt)});
  const auto first = p.eviction->after_prefill(start.view()).slots[0];
  std::vector<int> cached(first.begin(), first.end());
  ASSERT_EQ(cached, reference.cached);
  for (int i = prompt; i < 40; ++i) {
    reference.step(i, 10, 4);
    cached.push_back(i);
    cached = those(cached, p.eviction->after_decode(layer_over(rows, cached, 1)->view()));
    ASSERT_EQ(cached, reference.cached) << i;
  }
  // A later turn: nothing is evicted during its prefill, and the sums of the kept tokens continue.
  for (int i = 40; i < 60; ++i) {
    reference.step(i, i == 59 ? 10 : 100, 4);
    cached.push_back(i);
  }
  EXPECT_EQ(those(cached, p.eviction->after_prefill(layer_over(rows, cached, 20)->view())),
            reference.cached);
}

TEST(H2o, Budgets) {
  EXPECT_THROW(Method::parse("h2o:budget=4,recent=8"), Error);
  EXPECT_THROW(Method::parse("h2o:mode=prefill,budget=4,window=8"), Error);
  Layer layer(2, 2, 16, 100, 100, 5);
  EXPECT_EQ(kept("h2o:budget=0.2", layer)[1].size(), 20u);
  EXPECT_EQ(kept("h2o:budget=100", layer)[1].size(), 100u);
  EXPECT_THROW(kept("h2o:budget=0.02,recent=8", layer), Error);
}

// Of n = 1000, 600 are read at every step: 180 recent ones including the current token, and 420 key
// tokens.  The prompt keeps 599 of them.
TEST(Keyformer, Split) {
  Layer layer(1, 1, 64, 1000, 1000, 5);
  const Policies p = Method::parse("keyformer:t_max=64").make();
  const Ints set = p.eviction->after_prefill(layer.view()).slots[0];
  EXPECT_EQ(set.size(), 599u);
  for (int j = 821; j < 1000; ++j) EXPECT_TRUE(std::binary_search(set.begin(), set.end(), j));
  EXPECT_EQ(std::lower_bound(set.begin(), set.end(), 821) - set.begin(), 420);
  Layer step(1, 1, 64, 600, 1, 5);  // the kept tokens and the current token
  step.prompt_tokens = 1000;
  step.generated = 1;
  EXPECT_EQ(p.eviction->after_decode(step.view()).slots[0].size(), 599u);
}

// Without noise, at temperature 1, it is H2O, whose budget counts the tokens that remain after a
// step.
TEST(Keyformer, EqualsH2oWithoutNoise) {
  Layer layer(2, 4, 64, 200, 200, 5);
  EXPECT_EQ(kept("keyformer:noise=false,budget=81,recent=21", layer),
            kept("h2o:budget=80,recent=20", layer));
  EXPECT_NE(kept("keyformer:budget=81,recent=21", layer), kept("h2o:budget=80,recent=20", layer));
}

TEST(Keyformer, TemperatureEqualsTheDenseReference) {
  Layer layer(1, 2, 64, 150, 150, 5);
  const ColumnRule rule{.gumbel = false, .temperature = 2};
  std::vector<double> want(150, 0);
  for (int i = 0; i < 150; ++i) {
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += std::sqrt(layer.probability(1, i, j));
    for (int j = 0; j <= i; ++j) want[j] += std::sqrt(layer.probability(1, i, j)) / sum;
  }
  const auto got = layer.stats->column_mass(rule).scores.head(1, 150);
  for (std::size_t j = 0; j < 150; ++j) EXPECT_NEAR(got[j], want[j], 1e-4);
}

TEST(Keyformer, RefusesAnAnswerWithoutALimit) {
  PrescribedLayer layer({kExample});
  Policies p = Method::parse("keyformer:budget=4,recent=2").make();
  p.eviction->after_prefill(layer.view());
  LayerView step = layer.view();
  step.generated = 1;
  EXPECT_EQ(message_of([&] { p.eviction->after_decode(step); }),
            "keyformer: t_max: found 0 and an answer without a length limit, expected one");
}

// Temperature 1 has a faster path without one of the logarithms.
TEST(Keyformer, TemperatureOneEqualsTheLimit) {
  Layer layer(2, 2, 64, 300, 300, 5);
  const auto near = layer.stats->column_mass({.gumbel = true, .temperature = 1 + 1e-5}).scores;
  const auto at = layer.stats->column_mass({.gumbel = true}).scores;
  for (int h = 0; h < 4; ++h) {
    for (std::size_t j = 0; j < 300; ++j)
      EXPECT_NEAR(at.head(h, 300)[j], near.head(h, 300)[j], 1e-3) << h << " " << j;
  }
}

// Results of softmax((z + g) / T) with g from Gumbel(0, 1): for T -> 0 only the largest has weight,
// with its softmax probability (the Gumbel-max trick).
TEST(Keyformer, NoiseIsGumbel) {
  const ColumnRule rule{.gumbel = true, .temperature = 0.05};
  const int n = 70, trials = 20000;  // more than one tile of keys
  Layer layer(1, 1, 8, n, 1, 1);
  const float scale = static_cast<float>(1 / std::sqrt(8.0));
  std::vector<double> won(n, 0);
  for (int t = 0; t < trials; ++t) {
    AttentionStats stats(*layer.backend, layer.shape, scale, 0, layer.sets,
                         {layer.query_rows().rows_at(n - 1, 1), layer.positions.data() + n - 1},
                         &layer.tail, nullptr, static_cast<std::uint64_t>(t));
    const auto row = stats.column_mass(rule).scores.head(0, n);
    EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-4);
    ++won[std::max_element(row.begin(), row.end()) - row.begin()];
  }
  for (int j = 0; j < n; ++j) {
    const double p = layer.probability(0, n - 1, j);
    EXPECT_NEAR(won[j], p * trials, 5 * std::sqrt(p * (1 - p) * trials) + 1) << j;
  }
}

// Mean weights [.4, .1, .2, .3], B = 3.
TEST(Tova, WorkedExample) {
  const auto rows = [](std::vector<double> last) {
    return Rows{{1}, {.5, .5}, {.3, .3, .4}, std::move(last)};
  };
  PrescribedLayer layer({rows({.6, .05, .15, .2}), rows({.2, .15, .25, .4})});
  EXPECT_EQ(kept("tova:budget=3", layer)[0], (Ints{0, 2, 3}));
  EXPECT_TRUE(kept("tova:budget=4", layer).empty());
  PrescribedLayer weak({rows({.4, .3, .29, .01})});
  EXPECT_EQ(kept("tova:budget=3", weak)[0], (Ints{0, 1, 2}));
  EXPECT_EQ(kept("tova:budget=3,protect_last=true", weak)[0], (Ints{0, 1, 3}));
}

TEST(Tova, EvictsInAnswersUnlessItsModeIsPrefill) {
  PrescribedLayer layer({{{1}, {.5, .5}, {.3, .3, .4}, {.4, .1, .2, .3}}});
  EXPECT_EQ(kept("tova:budget=3,mode=prefill", layer)[0], (Ints{0, 2, 3}));
  for (const std::string mode : {"dynamic", "prefill"}) {
    const Policies policies = Method::parse("tova:budget=3,mode=" + mode).make();
    EXPECT_EQ(policies.eviction->evicts_in_answers(), mode == "dynamic");
  }
}

TEST(Tova, EqualsTheDenseReference) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {1, 63, 64, 65, 1000}) {
        Layer layer(2, group, head_dim, n, n, seed += 1000);
        const int budget = n / 2 + 1;
        const Policies p = Method::parse(fmt::format("tova:budget={}", budget)).make();
        const auto got = p.eviction->after_prefill(layer.view()).slots;
        EXPECT_EQ(got.empty(), n <= budget);
        if (got.empty()) continue;
        const auto scores = summed(layer, 0, 2 * group, n - 1, n);
        EXPECT_TRUE(equal_by_score(got[0], best(scores, budget), scores, n));
        EXPECT_EQ(got[0], got[1]);
        // A decode step over budget + 1 tokens drops the token with the least weight.
        Layer step(2, group, head_dim, budget + 1, 1, seed += 1000);
        const auto next = p.eviction->after_decode(step.view()).slots;
        const auto weights = summed(step, 0, 2 * group, budget, budget + 1);
        EXPECT_TRUE(equal_by_score(next[0], best(weights, budget), weights, budget + 1));
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
