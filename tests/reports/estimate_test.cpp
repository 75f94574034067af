#include "reports/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace turnbench {
namespace {

Stratum stratum(const std::string& population, const std::vector<double>& scores) {
  Stratum out;
  out.population = population;
  for (std::size_t i = 0; i < scores.size(); ++i)
    out.dialogues[std::to_string(1000 + i)] = {{0, scores[i]}};
  return out;
}

TEST(Estimate, MeanOfStrataMeans) {
  const Stratum a = stratum("a", {1, 1, 1, 1, 1, 0}), b = stratum("b", {0, 1});
  const Estimate e = estimate({&a, &b});
  EXPECT_NEAR(e.mean, 100 * (5.0 / 6 + 0.5) / 2, 1e-9);
  EXPECT_EQ(e.turns, 8);
  EXPECT_EQ(e.dialogues, 8);
  EXPECT_LE(e.low, e.mean);
  EXPECT_GE(e.high, e.mean);
}

// The bootstrap agrees with the normal interval where that holds, and covers as it promises.
TEST(Estimate, IntervalsCover) {
  std::mt19937 random(7);
  int covered = 0;
  constexpr int kTrials = 200, kDialogues = 60;
  for (int t = 0; t < kTrials; ++t) {
    std::vector<double> scores;
    for (int i = 0; i < kDialogues; ++i) scores.push_back(random() % 10 < 7 ? 1 : 0);
    const Stratum s = stratum("p", scores);
    const Estimate e = estimate({&s});
    covered += e.low <= 70 && 70 <= e.high;
    EXPECT_NEAR(e.half_width(), 196 * std::sqrt(e.mean / 100 * (1 - e.mean / 100) / kDialogues),
                3.0);
  }
  EXPECT_GE(covered, kTrials * 0.88);
}

// Turns of one dialogue go together: clustered scores make wider intervals than independent ones.
TEST(Estimate, DialoguesAreTheUnit) {
  Stratum clustered, independent;
  clustered.population = independent.population = "p";
  for (int i = 0; i < 40; ++i) {
    const double all = i % 2 == 0 ? 1 : 0;
    clustered.dialogues[std::to_string(i)] = {{0, all}, {1, all}, {2, all}};
    independent.dialogues[std::to_string(i)] = {{0, .5}, {1, .5}, {2, .5}};
  }
  EXPECT_GT(estimate({&clustered}).half_width(), 10);
  EXPECT_NEAR(estimate({&independent}).half_width(), 0, 1e-9);
}

TEST(Estimate, NoVariationIsNotCertainty) {
  const Stratum all = stratum("p", std::vector<double>(30, 1)),
                none = stratum("p", std::vector<double>(30, 0));
  EXPECT_NEAR(estimate({&all}).low, 100 * std::pow(0.025, 1.0 / 30), 1e-9);
  EXPECT_EQ(estimate({&all}).high, 100);
  EXPECT_NEAR(estimate({&none}).high, 100 * (1 - std::pow(0.025, 1.0 / 30)), 1e-9);
}

// A difference on the same dialogues is sharper than its two ends.
TEST(Estimate, DifferencesArePaired) {
  std::mt19937 random(3);
  std::vector<double> a, b;
  for (int i = 0; i < 80; ++i) {
    const double x = random() % 2;
    a.push_back(x);
    b.push_back(i % 20 == 0 ? 1 - x : x);
  }
  const Stratum sa = stratum("p", a), sb = stratum("p", b);
  const Estimate d = estimate_difference({{&sa, &sb}});
  EXPECT_NEAR(d.mean, estimate({&sa}).mean - estimate({&sb}).mean, 1e-9);
  EXPECT_LT(d.half_width(), estimate({&sa}).half_width());
  const Estimate same = estimate_difference({{&sa, &sa}});
  EXPECT_EQ(same.low, 0);
  EXPECT_EQ(same.high, 0);
}

// A run that is half done, or that failed in part, is compared on what both sides have.
TEST(Estimate, DifferencesAreOnCommonDialogues) {
  Stratum whole = stratum("p", {1, 1, 1, 0, 0, 0}), part = whole;
  for (const char* id : {"1000", "1001", "1002"}) part.dialogues.erase(id);
  part.dialogues["1003"] = {{0, 1}};  // 1, 0, 0 against 0, 0, 0
  EXPECT_NEAR(estimate_difference({{&part, &whole}}).mean, 100.0 / 3, 1e-9);
  EXPECT_NEAR(estimate_difference({{&whole, &part}}).mean, -100.0 / 3, 1e-9);
  EXPECT_EQ(estimate_difference({{&part, &whole}}).turns, 3);
}

// A judge or a probe may have a value for one turn of a dialogue and none for another.
TEST(Estimate, DifferencesAreOnCommonTurns) {
  Stratum ours, theirs;
  ours.population = theirs.population = "p";
  ours.dialogues = {{"a", {{0, 1.0}, {1, 1.0}}}, {"b", {{1, .5}}}, {"c", {{0, 0.0}}}};
  theirs.dialogues = {{"a", {{0, .25}}}, {"b", {{0, 1.0}, {1, .25}}}, {"c", {{1, 1.0}}}};
  const Estimate d = estimate_difference({{&ours, &theirs}});  // a: 1 - .25; b: .5 - .25
  EXPECT_NEAR(d.mean, 50, 1e-9);
  EXPECT_EQ(d.turns, 2);
  EXPECT_EQ(d.dialogues, 2) << "c has no turn in common";
  EXPECT_NEAR(d.low, 25, 1e-9);
  EXPECT_NEAR(d.high, 75, 1e-9);
}

// A mean over datasets of which one is missing is another number, so there is none.
TEST(Estimate, IsUnknownWhereAStratumIsEmpty) {
  Stratum nothing;
  nothing.population = "q";
  nothing.failed = 3;
  const Stratum whole = stratum("p", {1, 0, 1}), other = stratum("q", {1, 1, 0});
  EXPECT_TRUE(estimate({&whole, &other}).known);
  for (const auto& strata : {std::vector<const Stratum*>{&whole, &nothing}, {&nothing}, {}}) {
    const Estimate e = estimate(strata);
    EXPECT_FALSE(e.known);
    EXPECT_EQ(e.mean, 0);
    EXPECT_EQ(e.turns, strata.size() == 2 ? 3 : 0);
    EXPECT_EQ(e.failed, strata.empty() ? 0 : 3);
  }
  EXPECT_FALSE(estimate_difference({{&whole, &nothing}}).known);
  EXPECT_FALSE(estimate_difference({{&whole, &nothing}, {&other, &other}}).known);
  EXPECT_FALSE(estimate_difference({}).known);
  Stratum apart = stratum("p", {1, 1});  // dialogues that nobody else has
  std::map<std::string, Stratum::Turns> renamed;
  for (const auto& [id, turns] : apart.dialogues) renamed["x" + id] = turns;
  apart.dialogues = renamed;
  EXPECT_FALSE(estimate_difference({{&whole, &apart}}).known);
}

/// The largest mean of p_k x 100 with product (1 - p_k)^n_k >= .025, on a grid.
double bound_by_search(int n, int m) {
  double best = 0;
  for (int i = 0; i <= 4000; ++i) {
    const double p = i / 4000.0, rest = .025 / std::pow(1 - p, n);
    if (rest > 1) break;
    best = std::max(best, (p + 1 - std::pow(rest, 1.0 / m)) / 2);
  }
  return 100 * best;
}

// Four dialogues that all are wrong say little, whatever a hundred of another dataset say.
TEST(Estimate, BoundOfUnequalDatasets) {
  for (const auto& [n, m] : {std::pair(4, 100), {100, 4}, {24, 24}, {20, 30}, {3, 4}, {1, 1}}) {
    for (const double value : {0.0, 1.0}) {
      const Stratum a = stratum("a", std::vector<double>(static_cast<std::size_t>(n), value)),
                    b = stratum("b", std::vector<double>(static_cast<std::size_t>(m), value));
      const Estimate e = estimate({&a, &b});
      const double bound = value == 0 ? e.high : 100 - e.low;
      EXPECT_NEAR(bound, bound_by_search(n, m), 0.02) << n << " " << m;
      EXPECT_EQ(value == 0 ? e.low : e.high, 100 * value);
      // The same dialogues at another position say nothing more about the dataset.
      EXPECT_NEAR(estimate({&a, &a, &b, &b}).half_width(), e.half_width(), 1e-9);
    }
  }
  const Stratum few = stratum("a", {0, 0, 0, 0}), many = stratum("b", std::vector<double>(100, 0));
  EXPECT_GT(estimate({&few, &many}).high, 15) << "the mean of shares of .3 and 0";
}

TEST(Estimate, ValuesHaveAScaleOfTheirOwn) {
  Stratum seconds = stratum("p", {0.25, 0.5, 0.75});
  seconds.is_score = false;
  seconds.scale = 1000;
  EXPECT_NEAR(estimate({&seconds}).mean, 500, 1e-9);
  Stratum slower = seconds;
  for (auto& [id, turns] : slower.dialogues) turns[0] += 0.5;
  const Estimate d = estimate_difference({{&slower, &seconds}});
  EXPECT_NEAR(d.mean, 500, 1e-9);
  EXPECT_NEAR(d.high, 500, 1e-9);
}

// Closed form: resampling n independent differences gives the normal interval of their mean.
TEST(Estimate, DifferenceIntervalIsThatOfTheMean) {
  std::mt19937 random(11);
  std::vector<double> a, b;
  double sum = 0, squares = 0;
  constexpr int kDialogues = 150;
  for (int i = 0; i < kDialogues; ++i) {
    a.push_back(static_cast<double>(random() % 1001) / 1000);
    b.push_back(static_cast<double>(random() % 1001) / 1000);
    sum += a.back() - b.back();
    squares += (a.back() - b.back()) * (a.back() - b.back());
  }
  const double mean = sum / kDialogues,
               deviation = std::sqrt((squares / kDialogues - mean * mean) / kDialogues);
  const Stratum sa = stratum("p", a), sb = stratum("p", b);
  const Estimate d = estimate_difference({{&sa, &sb}});
  EXPECT_NEAR(d.mean, 100 * mean, 1e-9);
  EXPECT_NEAR(d.low, 100 * (mean - 1.96 * deviation), 0.5);
  EXPECT_NEAR(d.high, 100 * (mean + 1.96 * deviation), 0.5);
}

TEST(Estimate, IsRepeatable) {
  const Stratum s = stratum("p", {1, 0, 1, 1, 0, 0.5});
  EXPECT_EQ(estimate({&s}).low, estimate({&s}).low);
  EXPECT_EQ(estimate({&s}).high, estimate({&s}).high);
}

}  // namespace
}  // namespace turnbench
