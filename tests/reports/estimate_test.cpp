#include "reports/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace turnbench {
namespace {

Stratum stratum(const std::string& population, const std::vector<double>& scores) {
  Stratum out;
  out.population = population;
  for (std::size_t i = 0; i < scores.size(); ++i)
    out.dialogues[std::to_string(1000 + i)] = {scores[i], 1};
  return out;
}

TEST(Estimate, MeanOfStrataMeans) {
  const Stratum a = stratum("a", {1, 1, 1, 1, 1, 0}), b = stratum("b", {0, 1});
  const Estimate e = estimate({&a, &b});
  EXPECT_NEAR(e.mean, 100 * (5.0 / 6 + 0.5) / 2, 1e-9);
  EXPECT_EQ(e.turns, 8);
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
    clustered.dialogues[std::to_string(i)] = {i % 2 == 0 ? 3.0 : 0.0, 3};
    independent.dialogues[std::to_string(i)] = {1.5, 3};
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
  part.dialogues["1003"].score = 1;  // 1, 0, 0 against 0, 0, 0
  EXPECT_NEAR(estimate_difference({{&part, &whole}}).mean, 100.0 / 3, 1e-9);
  EXPECT_NEAR(estimate_difference({{&whole, &part}}).mean, -100.0 / 3, 1e-9);
  EXPECT_EQ(estimate_difference({{&part, &whole}}).turns, 3);
  const Stratum nothing, other = stratum("q", {1, 1});
  EXPECT_EQ(estimate_difference({{&whole, &nothing}}).turns, 0);
  const Stratum zero = stratum("q", {0, 0});
  EXPECT_NEAR(estimate_difference({{&whole, &nothing}, {&other, &zero}}).mean, 100, 1e-9);
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
