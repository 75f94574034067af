#include "reports/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "tests/reports/strata.h"

namespace turnbench {
namespace {

using test::population;
using test::stratum;

double half_width(const Estimate& e) {
  return (e.interval.value().high - e.interval.value().low) / 2;
}

Difference difference(const std::vector<StratumPair>& pairs, const Comparison& comparison = {}) {
  return compare({pairs}, comparison).front().value();
}

TEST(Estimate, MeanOfStrataMeans) {
  const Stratum a = stratum(population("a", 6), {1., 1., 1., 1., 1., 0.}),
                b = stratum(population("b", 2), {0., 1.});
  const Estimate e = estimate({&a, &b});
  EXPECT_NEAR(e.mean, 100 * (5.0 / 6 + 0.5) / 2, 1e-9);
  EXPECT_EQ(e.turns, 8);
  EXPECT_EQ(e.dialogues, 8);
  ASSERT_TRUE(e.interval);
  EXPECT_LE(e.interval->low, e.mean);
  EXPECT_GE(e.interval->high, e.mean);
}

// Wilson's score interval for 15 of 20 is [53.1, 88.8] with the normal quantile.  Student's t with
// 19 degrees of freedom and the variance's factor n / (n - 1) make it wider.
TEST(Estimate, OfIndependentTurnsIsWilsons) {
  std::vector<double> scores(20, 1);
  std::fill_n(scores.begin(), 5, 0);
  const Stratum s = stratum(population("p", 20), scores);
  const Estimate e = estimate({&s});
  const double n = 19, z = 2.093024;  // m (1 - m) / v = n - 1
  const double middle = (.75 + z * z / (2 * n)) / (1 + z * z / n),
               half = z / (1 + z * z / n) * std::sqrt(.75 * .25 / n + z * z / (4 * n * n));
  EXPECT_NEAR(e.interval->low, 100 * (middle - half), 1e-4);
  EXPECT_NEAR(e.interval->high, 100 * (middle + half), 1e-4);
  EXPECT_LT(e.interval->low, 53.1);
  EXPECT_GT(e.interval->high, 88.8);
}

/// A percentile bootstrap over dialogues: the central 95% of 20,000 resamples.
std::pair<double, double> plain_bootstrap(const std::vector<std::vector<double>>& dialogues) {
  std::mt19937_64 random(99);
  std::vector<double> means;
  for (int i = 0; i < 20'000; ++i) {
    double sum = 0, turns = 0;
    for (std::size_t k = 0; k < dialogues.size(); ++k) {
      for (double score : dialogues[random() % dialogues.size()]) {
        sum += score;
        ++turns;
      }
    }
    means.push_back(100 * sum / turns);
  }
  std::sort(means.begin(), means.end());
  return {means[500], means[19'500]};
}

// With many dialogues and scores away from the bounds, all intervals nearly agree.
TEST(Estimate, AgreesWithAPlainBootstrap) {
  std::mt19937 random(4);
  std::vector<std::vector<double>> scores;
  for (int i = 0; i < 150; ++i) {
    const double first = static_cast<double>(random() % 101) / 100;
    scores.push_back({first, random() % 2 == 0 ? first : 1});
    if (i % 3 == 0) scores.back().push_back(static_cast<double>(random() % 2));
  }
  const Stratum s = stratum(population("p", scores.size()), scores);
  const auto [low, high] = plain_bootstrap(scores);
  const Estimate e = estimate({&s});
  EXPECT_NEAR(e.interval->low, low, 0.5);
  EXPECT_NEAR(e.interval->high, high, 0.5);
  EXPECT_GT(high - low, 5);
}

// Turns of a dialogue are correlated: clustered scores give wider intervals than independent ones.
TEST(Estimate, DialoguesAreTheUnit) {
  const auto p = population("p", 40);
  std::vector<std::vector<double>> clustered, even;
  for (int i = 0; i < 40; ++i) {
    const double all = i % 2 == 0 ? 1 : 0;
    clustered.push_back({all, all, all});
    even.push_back({i % 3 == 0 ? 1. : 0., i % 3 == 1 ? 1. : 0., i % 3 == 2 ? 1. : 0.});
  }
  const Stratum a = stratum(p, clustered), b = stratum(p, even);
  EXPECT_NEAR(half_width(estimate({&a})), 15, 1);  // from 40 draws, not 120
  EXPECT_LT(half_width(estimate({&b})), half_width(estimate({&a})));
}

// A dialogue at two positions counts as one dialogue.
TEST(Estimate, DialoguesAreCountedOnce) {
  const auto p = population("p", 20);
  std::vector<double> scores;
  for (int i = 0; i < 20; ++i) scores.push_back(i % 4 == 0 ? 0 : 1);
  const Stratum s = stratum(p, scores);
  const Estimate once = estimate({&s}), twice = estimate({&s, &s});
  EXPECT_EQ(twice.dialogues, 20);
  EXPECT_EQ(twice.turns, 40);
  EXPECT_NEAR(half_width(twice), half_width(once), 1e-9);
}

TEST(Estimate, ConstantValuesHaveAnInterval) {
  const auto p = population("p", 24), q = population("q", 24);
  const Stratum all = stratum(p, std::vector<double>(24, 1)),
                none = stratum(p, std::vector<double>(24, 0)),
                other = stratum(q, std::vector<double>(24, 0));
  const double t = 2.068658;  // 23 degrees of freedom
  EXPECT_NEAR(estimate({&all}).interval->low, 100 * 24 / (24 + t * t), 1e-4);
  EXPECT_EQ(estimate({&all}).interval->high, 100);
  EXPECT_EQ(estimate({&none}).interval->low, 0);
  EXPECT_NEAR(estimate({&none}).interval->high, 100 * t * t / (24 + t * t), 1e-4);
  EXPECT_GT(half_width(estimate({&all, &other})), 10) << "all right and all wrong: 50, but of 48";
}

// One dialogue shows no variation between dialogues, so it gives no interval.
// Values that hold by definition are exact, such as the agreement of full attention with itself.
TEST(Estimate, OfExactValuesHasNoWidth) {
  Stratum exact, measured;
  exact.population = measured.population = population("set", 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    exact.turns.push_back({i, 0, 1});
    measured.turns.push_back({i, 0, 1});
  }
  exact.is_exact = true;
  const Estimate alone = estimate({&exact}), beside = estimate({&exact, &measured});
  EXPECT_EQ(alone.mean, 100);
  EXPECT_EQ(alone.interval->low, 100);
  EXPECT_EQ(alone.interval->high, 100);
  EXPECT_LT(beside.interval->low, 99);
}

TEST(Estimate, ASingleDialogueHasNoInterval) {
  const Stratum one = stratum(population("p", 1), std::vector<std::vector<double>>{{1, 0}}),
                many = stratum(population("q", 4), {1., 0., 1., 1.});
  EXPECT_EQ(estimate({&one}).mean, 50);
  EXPECT_FALSE(estimate({&one}).interval);
  EXPECT_FALSE(estimate({&one, &many}).interval);
  const Difference d = difference({{&one, &one}});
  EXPECT_FALSE(d.estimate.interval);
  EXPECT_EQ(d.against_zero.p, 1);
}

// Times and bytes have no upper bound; their interval uses Student's t.
TEST(Estimate, TimesUseStudentsT) {
  Stratum s = stratum(population("p", 4), {.01, .03, .02, .04});
  s.is_share = false;
  s.scale = 1e3;
  const Estimate e = estimate({&s});
  EXPECT_NEAR(e.mean, 25, 1e-9);
  const double deviation = std::sqrt((225 + 25 + 25 + 225) / 3.0 / 4);
  EXPECT_NEAR(e.interval->low, 25 - 3.182446 * deviation, 1e-4);
  EXPECT_NEAR(e.interval->high, 25 + 3.182446 * deviation, 1e-4);
  // So does that of scores without bounds.
  Stratum large = stratum(population("q", 4), {1., 3., 2., 4.});
  EXPECT_NEAR(half_width(estimate({&large})), 10 * half_width(e), 1e-6);
}

// If values cannot be negative, the interval of their mean is not either.
TEST(Estimate, IsNotNegativeWhereValuesAreNot) {
  Stratum s = stratum(population("p", 3), {0., 0., .3});
  s.is_share = false;
  s.scale = 1;
  EXPECT_EQ(estimate({&s}).interval->low, 0);
  s.is_signed = true;
  EXPECT_LT(estimate({&s}).interval->low, 0);
  const Stratum unbounded = stratum(population("q", 3), {-3., 0., 4.});
  EXPECT_LT(estimate({&unbounded}).interval->low, 0) << "a metric that is no share";
}

TEST(Estimate, ZeroIsPrintedWithoutSign) {
  EXPECT_EQ(number_text(-1e-9, 4), "0.0000");
  EXPECT_EQ(number_text(-1e-9, 4, /*sign=*/true), "+0.0000");
  EXPECT_EQ(number_text(-0.00005001, 4), "-0.0001");
  EXPECT_EQ(published_text(12.5, 1), "12.50") << "a score";
  EXPECT_EQ(published_text(0.0123, 4), "0.0123") << "a divergence";
  EXPECT_EQ(published_text(-0.001, 1, /*sign=*/true), "+0.00");
  EXPECT_EQ(number_text(-0.6, 0), "-1");
  EXPECT_EQ(number_text(0.25, 1, /*sign=*/true), "+0.2");
}

// Paired differences have narrower intervals than the two means.
TEST(Estimate, DifferencesArePaired) {
  std::mt19937 random(3);
  std::vector<double> a, b;
  for (int i = 0; i < 80; ++i) {
    const double x = random() % 2;
    a.push_back(x);
    b.push_back(i % 20 == 0 ? 1 - x : x);
  }
  const auto p = population("p", 80);
  const Stratum sa = stratum(p, a), sb = stratum(p, b);
  const Difference d = difference({{&sa, &sb}});
  EXPECT_NEAR(d.estimate.mean, estimate({&sa}).mean - estimate({&sb}).mean, 1e-9);
  EXPECT_LT(half_width(d.estimate), half_width(estimate({&sa})));
  // Allows for one more dialogue won and one lost: 1.96 sqrt(2 (1 / 80)^2).
  const Difference same = difference({{&sa, &sa}});
  EXPECT_NEAR(same.estimate.interval->high, 100 * 1.959964 * std::sqrt(2) / 80, 1e-4);
  EXPECT_NEAR(same.estimate.interval->low, -same.estimate.interval->high, 1e-12);
  EXPECT_EQ(same.against_zero.p, 1);
}

// An incomplete or partly failed run is compared on the dialogues that both sides have.
TEST(Estimate, DifferencesAreOnCommonDialogues) {
  const auto p = population("p", 6);
  const Stratum whole = stratum(p, {1., 1., 1., 0., 0., 0.});
  Stratum part = whole;
  part.turns = {{3, 0, 1}, {4, 0, 0}, {5, 0, 0}};  // 1, 0, 0 against 0, 0, 0
  EXPECT_NEAR(difference({{&part, &whole}}).estimate.mean, 100.0 / 3, 1e-9);
  EXPECT_NEAR(difference({{&whole, &part}}).estimate.mean, -100.0 / 3, 1e-9);
  EXPECT_EQ(difference({{&part, &whole}}).estimate.turns, 3);
}

// A judge or a probe may have values for only some turns of a dialogue.
TEST(Estimate, DifferencesAreOnCommonTurns) {
  Stratum ours, theirs;
  ours.population = theirs.population = population("p", 3);
  ours.turns = {{0, 0, 1.0}, {0, 1, 1.0}, {1, 1, .5}, {2, 0, 0.0}};
  theirs.turns = {{0, 0, .25}, {1, 0, 1.0}, {1, 1, .25}, {2, 1, 1.0}};
  const Estimate d = difference({{&ours, &theirs}}).estimate;  // 1 - .25 and .5 - .25
  EXPECT_NEAR(d.mean, 50, 1e-9);
  EXPECT_EQ(d.turns, 2);
  EXPECT_EQ(d.dialogues, 2) << "the third has no turn in common";
}

// A mean over datasets is unknown if one dataset has no value.
TEST(Estimate, IsUnknownWhereAStratumIsEmpty) {
  const auto p = population("p", 3), q = population("q", 3);
  Stratum nothing;
  nothing.population = q;
  nothing.failed = 3;
  const Stratum whole = stratum(p, {1., 0., 1.}), other = stratum(q, {1., 1., 0.}), absent;
  EXPECT_TRUE(estimate({&whole, &other}).known);
  for (const auto& strata : {std::vector<const Stratum*>{&whole, &nothing}, {&nothing}, {}}) {
    const Estimate e = estimate(strata);
    EXPECT_FALSE(e.known);
    EXPECT_FALSE(e.interval);
    EXPECT_EQ(e.mean, 0);
    EXPECT_EQ(e.turns, strata.size() == 2 ? 3 : 0);
    EXPECT_EQ(e.failed, strata.empty() ? 0 : 3);
  }
  Stratum first = whole, last = whole;  // no dialogue in common
  first.turns.resize(1);
  last.turns.erase(last.turns.begin());
  const auto family = compare({{{&whole, &nothing}},
                               {{&whole, &absent}},
                               {{&whole, &nothing}, {&other, &other}},
                               {},
                               {{&first, &last}},
                               {{&other, &other}}});
  for (std::size_t i = 0; i + 1 < family.size(); ++i) EXPECT_FALSE(family[i]) << i;
  EXPECT_TRUE(family.back());
}

// Equivalence is tested on request, and for shares only.
TEST(Estimate, EquivalenceHasAMargin) {
  const auto p = population("p", 300);
  std::vector<double> scores(300, 1);
  const Stratum a = stratum(p, scores);
  scores[0] = 0;
  Stratum b = stratum(p, scores);
  EXPECT_FALSE(difference({{&a, &b}}).equivalence);
  // P(T > (.02 - 1/300) / se), se^2 = 1/300 (1 - 1/300) / 299 + (1.96 / 1.968)^2 2 / 300^2
  EXPECT_NEAR(difference({{&a, &b}}, {Adjustment::kMaxT, 2}).equivalence.value(), .0020382, 1e-7);
  EXPECT_GT(difference({{&a, &b}}, {Adjustment::kMaxT, .3}).equivalence.value(), .4);
  EXPECT_NEAR(difference({{&a, &a}}, {Adjustment::kMaxT, 1}).equivalence.value(),
              std::pow(.99, 300), 1e-9);
  b.is_share = false;
  EXPECT_FALSE(difference({{&b, &b}}, {Adjustment::kMaxT, 1}).equivalence);
}

// The same p as for paired differences to a constant; values that do not vary are no certainty.
TEST(Estimate, EquivalenceToAPublishedNumber) {
  const auto p = population("p", 40);
  std::vector<double> scores(40, 1);
  const Stratum right = stratum(p, scores);
  for (std::size_t i = 0; i < 12; ++i) scores[i] = .25 + .02 * static_cast<double>(i);
  Stratum mixed = stratum(p, scores);
  for (const double published : {60.0, 79.5, 81.0, 99.0}) {
    const Stratum constant = stratum(p, std::vector<double>(40, published / 100));
    for (const double margin : {1.0, 5.0, 30.0}) {
      EXPECT_NEAR(
          equivalence_to(published, {&mixed}, margin).value(),
          difference({{&mixed, &constant}}, {Adjustment::kMaxT, margin}).equivalence.value(), 1e-12)
          << published << " " << margin;
    }
  }
  EXPECT_LT(equivalence_to(81, {&mixed}, 30).value(), .001);
  EXPECT_GT(equivalence_to(60, {&mixed}, 5).value(), .5);
  // A method that is right with probability .97 answers 40 dialogues correctly with probability .3.
  EXPECT_NEAR(equivalence_to(99, {&right}, 4).value(), std::pow(.97, 40), 1e-9);
  EXPECT_EQ(equivalence_to(95, {&right}, 4).value(), 1);
  mixed.is_share = false;
  EXPECT_FALSE(equivalence_to(81, {&mixed}, 30));
}

TEST(Estimate, NeededDialogues) {
  const auto p = population("p", 100);
  std::vector<double> scores(100, 1);
  const Stratum a = stratum(p, scores);
  for (std::size_t i = 0; i < 20; ++i) scores[i] = 0;
  const Stratum b = stratum(p, scores);
  // 20% of the dialogues differ by 1: the variance is .16 for 100 dialogues, plus the contribution
  // of one more dialogue.
  const double variance = .16 * 100 / 99 + .5 / 100;
  EXPECT_NEAR(needed_dialogues({{&b, &a}}, 5).number.value(),
              std::pow(1.96 + .8416, 2) * variance / .0025, 4);
  EXPECT_GT(needed_dialogues({{&a, &a}}, 5).number.value(), 2)
      << "no difference in 100 is not none";
}

TEST(Estimate, UnknownNeededDialoguesHaveAReason) {
  const auto p = population("p", 3), single = population("s", 1);
  const Stratum a = stratum(p, {1., 0., 1.}), b = stratum(p, {0., 1., 1.}),
                c = stratum(single, std::vector<double>{1});
  Stratum divergence = b;
  divergence.is_share = false;
  const auto otherwise = [](const Stratum& x, const Stratum& y, double points) {
    const NeededDialogues needed = needed_dialogues({{&x, &y}}, points);
    EXPECT_FALSE(needed.number);
    return needed.otherwise;
  };
  EXPECT_EQ(otherwise(a, b, .0001), "more than 1000000000");
  EXPECT_EQ(otherwise(c, c, 5), "unknown: a dataset has fewer than two dialogues");
  EXPECT_EQ(otherwise(divergence, divergence, 5),
            "unknown: points are of 100, and these values are no shares");
}

}  // namespace
}  // namespace turnbench
