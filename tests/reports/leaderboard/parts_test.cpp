// Parts of a leaderboard, against results on paper and against computations of their own.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "reports/leaderboard/complete_block.h"
#include "reports/leaderboard/ranks.h"
#include "reports/pareto_front.h"
#include "tests/reports/all_flips.h"
#include "tests/reports/strata.h"

namespace turnbench::test {
namespace {

using Indices = std::vector<std::size_t>;

TEST(CompleteBlock, HasTheMostPairs) {
  // Methods 0, 1 and 2 share two conditions: 6 pairs.  Method 3 shares one of them: 4 pairs.
  const CompleteBlock block = largest_complete_block({{0, 1}, {0, 1, 2}, {0, 1}, {1}});
  EXPECT_EQ(block.methods, (Indices{0, 1, 2}));
  EXPECT_EQ(block.conditions, (Indices{0, 1}));
  // One condition that four methods have is more than two that one has.
  const CompleteBlock wide = largest_complete_block({{0}, {0}, {0}, {0, 1}});
  EXPECT_EQ(wide.methods, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(wide.conditions, (Indices{0}));
}

TEST(CompleteBlock, MayBeAnIntersectionThatNoMethodHasAsItsOwn) {
  const CompleteBlock block = largest_complete_block({{0, 1, 2}, {0, 1, 3}, {0, 1, 4}});
  EXPECT_EQ(block.methods, (Indices{0, 1, 2}));
  EXPECT_EQ(block.conditions, (Indices{0, 1}));
}

TEST(CompleteBlock, PrefersMoreMethodsAmongEqualNumbersOfPairs) {
  const CompleteBlock block = largest_complete_block({{0, 1}, {2}, {2}});
  EXPECT_EQ(block.methods, (Indices{1, 2}));
  EXPECT_EQ(block.conditions, (Indices{2}));
  EXPECT_TRUE(largest_complete_block({{}, {}}).methods.empty());
}

TEST(CompleteBlock, HasSeveralMethodsIfTwoShareACondition) {
  const CompleteBlock block = largest_complete_block({{0, 1, 2, 3}, {0}});
  EXPECT_EQ(block.methods, (Indices{0, 1}));
  EXPECT_EQ(block.conditions, Indices{0});
  EXPECT_EQ(largest_complete_block({{0, 1}, {2}}).methods, Indices{0});
}

/// The most pairs of any block, by trying all sets of conditions.
std::size_t most_pairs(const std::vector<std::set<std::size_t>>& of, std::size_t conditions) {
  std::size_t out = 0;
  for (std::size_t chosen = 1; chosen < std::size_t{1} << conditions; ++chosen) {
    std::size_t size = 0, methods = 0;
    for (std::size_t c = 0; c < conditions; ++c) size += chosen >> c & 1;
    for (const std::set<std::size_t>& own : of) {
      bool all = true;
      for (std::size_t c = 0; c < conditions; ++c) all &= (chosen >> c & 1) == 0 || own.contains(c);
      methods += all;
    }
    if (methods > 1) out = std::max(out, size * methods);
  }
  return out;
}

TEST(CompleteBlock, EqualsTheBestOfAllSetsOfConditions) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kConditions = 7;
    std::vector<std::set<std::size_t>> of(6);
    for (std::set<std::size_t>& own : of) {
      for (std::size_t c = 0; c < kConditions; ++c) {
        if (random() % 3 > 0) own.insert(c);
      }
    }
    const CompleteBlock block = largest_complete_block(of);
    EXPECT_EQ(block.methods.size() * block.conditions.size(), most_pairs(of, kConditions));
    for (const std::size_t m : block.methods) {
      for (const std::size_t c : block.conditions) EXPECT_TRUE(of[m].contains(c));
    }
  }
}

TEST(ParetoFront, LacksMethodsThatAnotherOneDominates) {
  const std::vector<QualityAndCost> methods = {
      {90, 100},                     // the best
      {80, 50},                      // cheaper
      {80, 60},                      // as good as the one before, at a higher cost
      {70, 50},                      // worse at an equal cost
      {95, std::nullopt},            // not measured
      {60, 10},           {60, 10},  // equal methods do not dominate each other
      {80 + 1e-12, 50},              // differs by rounding only
  };
  EXPECT_EQ(pareto_front(methods),
            (std::vector<bool>{true, true, false, false, false, true, true, true}));
}

/// Adjusted p-values of all pairs of methods: [pair].  scores: [method][dialogue].
std::vector<double> adjusted_p(const std::vector<std::vector<double>>& scores) {
  std::vector<std::vector<double>> differences;
  for (std::size_t a = 0; a < scores.size(); ++a) {
    for (std::size_t b = a + 1; b < scores.size(); ++b) {
      std::vector<double>& d = differences.emplace_back();
      for (std::size_t i = 0; i < scores[a].size(); ++i) d.push_back(scores[a][i] - scores[b][i]);
    }
  }
  return adjusted_by_all_flips(differences);
}

std::vector<RankRange> expected_ranks(const std::vector<std::vector<double>>& scores,
                                      bool lower_is_better) {
  const std::vector<double> p = adjusted_p(scores);
  std::vector<RankRange> out(scores.size(), RankRange{1, scores.size()});
  std::size_t pair = 0;
  for (std::size_t a = 0; a < scores.size(); ++a) {
    for (std::size_t b = a + 1; b < scores.size(); ++b, ++pair) {
      if (p[pair] > .05) continue;
      double sum = 0;
      for (std::size_t i = 0; i < scores[a].size(); ++i) sum += scores[a][i] - scores[b][i];
      const bool a_better = (sum > 0) != lower_is_better;
      ++out[a_better ? b : a].best;
      --out[a_better ? a : b].worst;
    }
  }
  return out;
}

TEST(RankRanges, EqualThoseOfAllFlips) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> noise(0, 1);
  std::size_t decided = 0, undecided = 0;
  for (int round = 0; round < 20; ++round) {
    constexpr std::size_t kDialogues = 10, kMethods = 4;
    const auto of = population("data", kDialogues);
    std::vector<std::vector<double>> scores(kMethods);
    std::vector<std::vector<Stratum>> strata;
    for (std::size_t m = 0; m < kMethods; ++m) {
      for (std::size_t i = 0; i < kDialogues; ++i)
        scores[m].push_back(.2 * static_cast<double>(m) + .3 * noise(random));
      strata.push_back({stratum(of, scores[m])});
    }
    for (const bool lower : {false, true}) {
      const std::vector<RankRange> ranks = rank_ranges(strata, lower);
      EXPECT_EQ(ranks, expected_ranks(scores, lower)) << "round " << round;
      for (const RankRange& rank : ranks) ++(rank.best == rank.worst ? decided : undecided);
    }
  }
  EXPECT_GT(decided, 0u);
  EXPECT_GT(undecided, 0u);
}

TEST(RankRanges, AreWholeWhereNothingDiffers) {
  const auto of = population("data", 12);
  const std::vector<double> scores(12, .5);
  const std::vector<std::vector<Stratum>> strata(3, {stratum(of, scores)});
  EXPECT_EQ(rank_ranges(strata, false), std::vector<RankRange>(3, RankRange{1, 3}));
  EXPECT_EQ(rank_ranges({{stratum(of, scores)}}, false), std::vector<RankRange>(1));
}

}  // namespace
}  // namespace turnbench::test
