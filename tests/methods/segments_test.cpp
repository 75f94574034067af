// Segments, and SABlock, which splits the prompt at delimiters in its text.

#include "methods/parts/segments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/error.h"
#include "prescribed.h"

namespace turnbench {
namespace {

using namespace test;

TEST(Segments, EndsOfClausesAndSentences) {
  for (const char* text : {".", " end.", "!?", ".\n", "\n\n", "。", " 好！", "Hm?  "}) {
    EXPECT_TRUE(ends_segment(text, Cut::kSentence)) << text;
    EXPECT_TRUE(ends_segment(text, Cut::kClause)) << text;
  }
  for (const char* text : {",", "so;", ":", "\n", " x\n", "，", "、"}) {
    EXPECT_FALSE(ends_segment(text, Cut::kSentence)) << text;
    EXPECT_TRUE(ends_segment(text, Cut::kClause)) << text;
  }
  for (const char* text : {"", " ", "word", ".5", "\xe3\x80", "é"}) {
    EXPECT_FALSE(ends_segment(text, Cut::kClause)) << text;
  }
}

TEST(Segments, TextIsNeeded) {
  Layer layer(1, 1, 16, 100, 100, 1);
  EXPECT_THROW(kept("sablock:budget=32", layer), Error);
}

// Three segments, B - w = 5: plain top-k keeps {0,4,5,6,8}.
TEST(SaBlock, WorkedExample) {
  PrescribedLayer layer({rows_like({.30, .02, .02, .02, .10, .12, .11, .09, .095, .01})});
  std::vector<int> tokens;
  tell(layer, tokens, {3, 7, 9});
  EXPECT_EQ(kept("sablock:budget=6,window=1,lambda=0,block_max=1", layer)[0],
            (Ints{0, 4, 5, 6, 8, 10}));
  EXPECT_EQ(kept("sablock:budget=6,window=1", layer)[0], (Ints{0, 4, 5, 6, 7, 10}));
}

// Segment .10, .02, .03, .12 with two tokens: {2,3} keeps .6818 of the best two.
TEST(SaBlock, BlockSearch) {
  PrescribedLayer layer({rows_like({.10, .02, .03, .12, .0001, .0001})});
  std::vector<int> tokens;
  tell(layer, tokens, {3, 5});
  const std::string spec = "sablock:budget=3,window=1,lambda=0,tau=";
  EXPECT_EQ(kept(spec + "0.8", layer)[0], (Ints{0, 3, 6}));
  EXPECT_EQ(kept(spec + "0.68", layer)[0], (Ints{2, 3, 6}));
  EXPECT_EQ(kept(spec + "0.8,blocks=fixed,block_max=2", layer)[0], (Ints{2, 3, 6}));
  EXPECT_EQ(kept(spec + "0.1,blocks=odd", layer)[0], (Ints{0, 3, 6}));
}

// "If the ratio exceeds the threshold": a block of two that keeps exactly half of the best two.
TEST(SaBlock, BlocksMustKeepMoreThanTheThreshold) {
  PrescribedLayer layer({rows_like({.25, 1e-30, .25, 1e-30, .0001, .0001})});
  std::vector<int> tokens;
  tell(layer, tokens, {3, 5});
  const std::string spec = "sablock:budget=3,window=1,lambda=0,tau=";
  EXPECT_EQ(kept(spec + "0.5", layer)[0], (Ints{0, 2, 6}));
  EXPECT_EQ(kept(spec + "0.499", layer)[0], (Ints{0, 1, 6}));
}

// The paper's ablations (Tables III and IV): without guidance, and with blocks of one size instead
// of adaptive ones.
TEST(SaBlock, Ablations) {
  PrescribedLayer layer({rows_like({.30, .02, .02, .02, .10, .12, .11, .09, .095, .01})});
  std::vector<int> tokens;
  tell(layer, tokens, {3, 7, 9});
  const auto of = [&](const std::string& settings) {
    return kept("sablock:budget=6,window=1," + settings, layer)[0];
  };
  // Token level, with and without guidance.
  EXPECT_EQ(of("block_max=1"), (Ints{0, 4, 5, 6, 7, 10}));
  EXPECT_EQ(of("lambda=0,block_max=1"), (Ints{0, 4, 5, 6, 8, 10}));
  // Without guidance: budgets [1, 3, 1]; blocks of 3, {4,5,6} and {7}, have the whole score of
  // {4,5,6}.
  EXPECT_EQ(of("lambda=0"), (Ints{0, 4, 5, 6, 8, 10}));
  // Fixed blocks of 2 over the whole prompt, sums .32 .04 .22 .20 .105: two and a half of them.
  EXPECT_EQ(of("lambda=0,segment=none,blocks=fixed,block_max=2"), (Ints{0, 1, 4, 5, 6, 10}));
  // Fixed blocks of 5, sums .46 and .425: the first one.  Of 10: the best 5 of the only one.
  EXPECT_EQ(of("lambda=0,segment=none,blocks=fixed,block_max=5"), (Ints{0, 1, 2, 3, 4, 10}));
  EXPECT_EQ(of("lambda=0,segment=none,blocks=fixed,block_max=10"), (Ints{0, 4, 5, 6, 8, 10}));
  layer.dialogue.token_text = nullptr;  // one segment needs no text
  EXPECT_EQ(of("lambda=0,segment=none,block_max=1"), (Ints{0, 4, 5, 6, 8, 10}));
}

// A fixed size is also used in a segment whose budget is smaller: sums .34 and .46, two tokens.
TEST(SaBlock, FixedBlocksAreNotCutToTheBudget) {
  PrescribedLayer layer({rows_like({.30, .01, .01, .01, .01, .10, .09, .09, .09, .09})});
  std::vector<int> tokens;
  tell(layer, tokens, {9});
  const std::string spec = "sablock:budget=3,window=1,lambda=0,block_max=5,blocks=";
  EXPECT_EQ(kept(spec + "fixed", layer)[0], (Ints{5, 6, 10}));
  EXPECT_EQ(kept(spec + "all", layer)[0], (Ints{0, 5, 10}));
}

/// SABlock step by step, in double precision.
Ints sablock_reference(const std::vector<double>& s, const std::vector<Ints>& segments, int count,
                       double lambda, double gamma, double tau, int block_max) {
  std::vector<double> weight, guided = s;
  for (const Ints& k : segments) {
    double sum = 0, d = 0;
    for (int j : k) sum += s[j];
    for (int j : k) {
      const double p = s[j] / (sum + 1e-8);
      d -= p * std::log(p + 1e-8);
    }
    const auto size = static_cast<double>(k.size());
    weight.push_back(sum / size * (1 + gamma * (k.size() > 1 ? d / std::log(size) : 0)));
  }
  const double top = *std::max_element(weight.begin(), weight.end());
  for (std::size_t k = 0; k < segments.size(); ++k) {
    for (int j : segments[k]) guided[j] *= 1 + lambda * weight[k] / top;
  }
  const Ints global = best(guided, count);
  Ints out;
  for (const Ints& k : segments) {
    std::vector<double> own;
    int b = 0;
    for (int j : k) {
      own.push_back(guided[j]);
      b += std::binary_search(global.begin(), global.end(), j);
    }
    const auto mass = [&](const Ints& places) {
      return std::accumulate(places.begin(), places.end(), 0.0,
                             [&](double x, int i) { return x + own[i]; });
    };
    for (int beta = std::min(block_max, b); beta >= 1; --beta) {
      std::vector<double> blocks((own.size() + static_cast<std::size_t>(beta) - 1) /
                                 static_cast<std::size_t>(beta));
      for (std::size_t i = 0; i < own.size(); ++i)
        blocks[i / static_cast<std::size_t>(beta)] += own[i];
      Ints chosen;
      while (static_cast<int>(chosen.size()) < b) {
        const auto at = std::max_element(blocks.begin(), blocks.end());
        const auto begin = static_cast<std::size_t>((at - blocks.begin()) * beta);
        const std::vector<double> block(
            own.begin() + static_cast<std::ptrdiff_t>(begin),
            own.begin() + static_cast<std::ptrdiff_t>(
                              std::min(own.size(), begin + static_cast<std::size_t>(beta))));
        for (int i : best(block, b - static_cast<int>(chosen.size())))
          chosen.push_back(static_cast<int>(begin) + i);
        *at = -1;
      }
      if (mass(chosen) <= tau * mass(best(own, b)) + 1e-12) continue;
      for (int i : chosen) out.push_back(k[i]);
      break;
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(SaBlock, EqualsTheDenseReference) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {1, 63, 64, 65, 1000}) {
        Layer layer(2, group, head_dim, n, n, seed += 1000);
        const int budget = std::max(n / 3, 16), m = n - 8;
        std::mt19937 random(static_cast<unsigned>(seed));
        std::vector<int> tokens, ends;
        std::vector<Ints> segments(1);
        for (int j = 0; j < m; ++j) {
          segments.back().push_back(j);
          if (random() % 9 != 0) continue;
          ends.push_back(j);
          if (j + 1 < m) segments.emplace_back();
        }
        tell(layer, tokens, ends);
        const auto got = kept(fmt::format("sablock:budget={}", budget), layer);
        ASSERT_EQ(got.size(), 2u);
        EXPECT_EQ(got[0], got[1]);
        EXPECT_EQ(static_cast<int>(got[0].size()), std::min(n, budget));
        if (n <= budget) continue;
        auto scores = summed(layer, 0, 2 * group, m, m);
        for (double& x : scores) x /= 2 * group;
        const Ints want = sablock_reference(scores, segments, budget - 8, .5, .5, .8, 10);
        EXPECT_EQ(got[0], and_tail(want, m, n)) << n << " " << group;
        // Without guidance and blocks it is the top-k of the head mean.
        const auto plain =
            kept(fmt::format("sablock:budget={},lambda=0,block_max=1", budget), layer);
        EXPECT_TRUE(equal_by_score(plain[0], and_tail(best(scores, budget - 8), m, n), scores, n));
      }
    }
  }
}

TEST(SaBlock, EveryVariantKeepsTheBudget) {
  Layer layer(2, 2, 64, 300, 300, 3);
  std::vector<int> tokens;
  tell(layer, tokens, {5, 6, 20, 90, 91, 150});
  for (const char* guide : {"mul", "mix", "pow"}) {
    for (const char* weight : {"mul", "add"}) {
      for (const char* blocks : {"all", "odd", "fixed"}) {
        const auto got =
            kept(fmt::format("sablock:budget=96,guide={},weight={},blocks={},ent_norm={}", guide,
                             weight, blocks, guide[0] == 'p'),
                 layer);
        EXPECT_EQ(got[0].size(), 96u);
        EXPECT_TRUE(std::is_sorted(got[0].begin(), got[0].end()));
      }
    }
  }
  // A prompt without punctuation is one segment: any lambda gives the same order.
  tell(layer, tokens, {});
  EXPECT_EQ(kept("sablock:budget=96,lambda=0.9", layer), kept("sablock:budget=96,lambda=0", layer));
}

}  // namespace
}  // namespace turnbench
