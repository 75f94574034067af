// Shares of budgets: worked examples, and their invariants.

#include "methods/parts/budget_sharing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace turnbench {
namespace {

using Sizes = std::vector<int>;

int sum(const Sizes& x) {
  return std::accumulate(x.begin(), x.end(), 0);
}

// L = 32, B = 128, w = 8, n = 8000.
TEST(PyramidBudgets, WorkedExamples) {
  const Sizes floored = pyramid_budgets(32, 120, 20, 7992, false);
  EXPECT_EQ(floored.front(), 234);
  EXPECT_EQ(floored.back(), 17);
  EXPECT_EQ(sum(floored), 4016);
  const Sizes exact = pyramid_budgets(32, 120, 20, 7992, true);
  EXPECT_EQ(exact.front(), 234);
  EXPECT_EQ(exact.back(), 6);
  EXPECT_EQ(sum(exact), 3840);
  const Sizes large = pyramid_budgets(32, 2040, 20, 7992, false);
  EXPECT_EQ(large.front(), 3978);
  EXPECT_EQ(large.back(), 103);
  EXPECT_EQ(sum(large), 65296);
  EXPECT_EQ(sum(pyramid_budgets(32, 2040, 20, 7992, true)), 65280);
}

TEST(PyramidBudgets, SumsToTheMeanAndNeverGrows) {
  for (int layers : {1, 2, 5, 28, 32}) {
    for (int base : {1, 7, 120, 1000}) {
      for (int beta : {1, 2, 20}) {
        for (int candidates : {2 * base, 2 * base + 3, 50 * base}) {
          const Sizes got = pyramid_budgets(layers, base, beta, candidates, true);
          EXPECT_EQ(sum(got), layers * base);
          EXPECT_TRUE(std::is_sorted(got.rbegin(), got.rend()));
          EXPECT_LE(got.front(), candidates);
          if (beta == 1) {
            EXPECT_EQ(got, Sizes(static_cast<std::size_t>(layers), base));
          }
        }
      }
    }
  }
}

TEST(WeightedBudgets, FollowTheWeightsAndSumToTheMean) {
  const std::vector<double> weights = {4, 3, 2, 1}, thirds = {1, 1, 1}, most = {9, 1, 0};
  EXPECT_EQ(weighted_budgets(weights, 10, 100), (Sizes{16, 12, 8, 4}));
  EXPECT_EQ(weighted_budgets(thirds, 7, 100), (Sizes{7, 7, 7}));
  EXPECT_EQ(weighted_budgets(most, 10, 100), (Sizes{27, 3, 0}));
  EXPECT_EQ(weighted_budgets(most, 10, 15),
            (Sizes{15, 9, 6}));  // the excess over the cap is redistributed
}

// B* = [2, 4], base = 3, a = 0.2.
TEST(SafeguardedBudgets, WorkedExample) {
  const Sizes wanted = {2, 4}, caps = {6, 6};
  EXPECT_EQ(safeguarded_budgets(wanted, caps, 3, 0.2, false), (Sizes{2, 3}));
  EXPECT_EQ(safeguarded_budgets(wanted, caps, 3, 0.2, true), (Sizes{2, 4}));
  EXPECT_EQ(safeguarded_budgets(wanted, caps, 3, 1, true), (Sizes{3, 3}));
  EXPECT_EQ(safeguarded_budgets(wanted, caps, 3, 0, true), wanted);
}

TEST(SafeguardedBudgets, FloorAndSum) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    const int heads = 1 + static_cast<int>(random() % 8),
              base = 1 + static_cast<int>(random() % 50);
    const Sizes caps(static_cast<std::size_t>(heads), base * heads);
    Sizes wanted(static_cast<std::size_t>(heads), 0);
    for (int i = 0; i < heads * base; ++i) ++wanted[random() % wanted.size()];
    const double alpha = static_cast<double>(random() % 11) / 10;
    const Sizes got = safeguarded_budgets(wanted, caps, base, alpha, true);
    EXPECT_EQ(sum(got), heads * base);
    for (int b : got) EXPECT_GE(b, static_cast<int>(alpha * base));
  }
}

TEST(Apportion, TiesGoToTheLowerIndexAndCapsHold) {
  const std::vector<double> targets = {1.5, 2.5, 0.5, 0.5};
  EXPECT_EQ(apportion(targets, Sizes{9, 9, 9, 9}, 5), (Sizes{2, 3, 0, 0}));
  EXPECT_EQ(apportion(targets, Sizes{1, 2, 9, 9}, 5), (Sizes{1, 2, 1, 1}));
  EXPECT_EQ(apportion(targets, Sizes{1, 2, 1, 0}, 5), (Sizes{1, 2, 1, 0}));
  // A remainder that is equal except for rounding counts as equal.
  const std::vector<double> tenths = {0.1 + 0.2, 0.3, 0.4};
  EXPECT_EQ(apportion(tenths, Sizes{1, 1, 1}, 2), (Sizes{1, 0, 1}));
}

}  // namespace
}  // namespace turnbench
