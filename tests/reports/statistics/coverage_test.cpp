// The tables of docs/statistics.md: how often 95% intervals cover the true value, which is known
// for simulated dialogues.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/random.h"
#include "reports/statistics/interval.h"
#include "reports/statistics/power.h"
#include "tests/reports/strata.h"

namespace turnbench {
namespace {

constexpr int kTrials = 2000;

using Dialogues = std::vector<std::vector<double>>;
using Draw = std::function<Dialogues(Random&, std::size_t count)>;

double normal(Random& random) {
  const double u = 1 - random.uniform(), v = random.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::acos(-1.0) * v);
}

/// Draws two or three turns per dialogue.  `turn` gets a random number that the turns of a dialogue
/// share.
template <typename Turn>
Dialogues draw_dialogues(Random& random, std::size_t count, const Turn& turn) {
  Dialogues out(count);
  for (std::vector<double>& dialogue : out) {
    const double luck = random.uniform();
    dialogue.resize(2 + random.below(2));
    for (double& x : dialogue) x = turn(luck);
  }
  return out;
}

/// Correct with probability p; on average half of the turns share their dialogue's random number.
Draw binary(double p) {
  return [p](Random& random, std::size_t count) {
    return draw_dialogues(random, count, [&](double luck) {
      return (random.below(2) == 0 ? luck : random.uniform()) < p ? 1.0 : 0.0;
    });
  };
}

/// Scores like F1: often 0 or 1, otherwise near the dialogue's level.  The mean is 1/2.
Dialogues f1_like(Random& random, std::size_t count) {
  return draw_dialogues(random, count, [&](double luck) {
    const double level = random.below(5) < 3 ? luck : random.uniform();
    return random.below(10) < 4 ? std::round(level) : level;
  });
}

/// One turn per dialogue.
template <typename Turn>
Draw single_turns(const Turn& turn) {
  return [turn](Random& random, std::size_t count) {
    Dialogues out(count);
    for (std::vector<double>& dialogue : out) dialogue = {turn(random)};
    return out;
  };
}

/// 0 with probability .75, otherwise partial scores.  The mean is .1.
Draw mostly_zero() {
  return single_turns(
      [](Random& random) { return random.uniform() < .75 ? 0 : std::pow(random.uniform(), 1.5); });
}

/// 0 with probability .6, 1 with probability .12, otherwise small.  The mean is .1425.
Draw zero_small_or_one() {
  return single_turns([](Random& random) {
    const double kind = random.uniform();
    return kind < .6 ? 0 : kind < .72 ? 1 : std::pow(random.uniform(), 11.0 + 4.0 / 9);
  });
}

/// 1 with probability .1, otherwise small but never 0: F1 of long answers.  The mean is .1429.
Draw small_or_one() {
  return single_turns(
      [](Random& random) { return random.uniform() < .1 ? 1 : std::pow(random.uniform(), 20); });
}

/// Differences: lost with probability p, otherwise 0, or with `noise` between -noise and noise.
Draw lost(double p, double noise = 0) {
  return single_turns([=](Random& random) {
    return random.uniform() < p ? -1 : noise * (2 * random.uniform() - 1);
  });
}

/// Scores like those of a judge model: between 0 and 1, with the mean .6.
Draw judged() {
  return single_turns(
      [](Random& random) { return .6 + .08 * std::clamp(normal(random), -4.0, 4.0); });
}

/// Differences to a baseline that is correct with probability .9.  Correct turns become wrong with
/// probability `lost`, wrong ones correct with `won`.  The mean is -.9 lost + .1 won.
Draw changed(double lost, double won) {
  return [lost, won](Random& random, std::size_t count) {
    return draw_dialogues(random, count, [&](double luck) {
      const bool shared = random.below(2) == 0;
      const double base = random.uniform(), change = shared ? luck : random.uniform();
      return base < .9 ? (change < lost ? -1.0 : 0.0) : change < won ? 1.0 : 0.0;
    });
  };
}

/// Lower by `shift` on average.
Draw shifted(double shift) {
  return [shift](Random& random, std::size_t count) {
    return draw_dialogues(random, count, [&](double luck) {
      return -shift + .3 * (luck - .5) + .1 * std::clamp(normal(random), -5.0, 5.0);
    });
  };
}

using Kind = std::function<Interval(double, const Spread&)>;

/// The percentage of trials whose interval covers `truth`.
double coverage(const std::vector<std::pair<Draw, std::size_t>>& datasets, double truth,
                const Kind& interval) {
  Random random(20250101);
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<Stratum> strata;
    for (const auto& [draw, count] : datasets)
      strata.push_back(test::stratum(test::population(std::to_string(strata.size()), count),
                                     draw(random, count)));
    std::vector<const Stratum*> pointers;
    for (const Stratum& s : strata) pointers.push_back(&s);
    const Contributions mean = contributions(pointers);
    const Interval ends = interval(mean.mean, spread_of(mean));
    covered += ends.low <= truth + 1e-12 && truth <= ends.high + 1e-12;
  }
  return 100.0 * covered / kTrials;
}

void expect_coverage(const std::string& name, const Draw& draw, double truth,
                     const Kind& interval) {
  for (const std::size_t n : {12u, 24u, 96u}) {
    const double got = coverage({{draw, n}}, truth, interval);
    EXPECT_GE(got, 93) << name << ", " << n << " dialogues";
    std::printf("  %-22s %3zu dialogues  %5.1f%%\n", name.c_str(), n, got);
  }
}

TEST(Coverage, IntervalsOfMeansCover) {
  expect_coverage("binary .5", binary(.5), .5, share_interval);
  expect_coverage("binary .9", binary(.9), .9, share_interval);
  expect_coverage("binary .98", binary(.98), .98, share_interval);
  expect_coverage("binary .02", binary(.02), .02, share_interval);
  expect_coverage("F1-like", f1_like, .5, share_interval);
}

TEST(Coverage, IntervalsOfMostlyZeroScoresCover) {
  const auto expect = [](const std::string& name, const Draw& draw, double truth) {
    for (const std::size_t n : {8u, 12u, 24u, 96u}) {
      const double got = coverage({{draw, n}}, truth, share_interval);
      EXPECT_GE(got, 93) << name << ", " << n << " dialogues";
      std::printf("  %-22s %3zu dialogues  %5.1f%%\n", name.c_str(), n, got);
    }
  };
  expect("mostly 0", mostly_zero(), .1);
  expect("0, small, or 1", zero_small_or_one(), .12 + .28 / (12 + 4.0 / 9));
  expect("small or 1", small_or_one(), .1 + .9 / 21);
}

// The less often a dialogue is lost, the more samples have none.
TEST(Coverage, IntervalsOfDifferencesWithRareLossesCover) {
  for (const std::size_t n : {8u, 12u, 24u, 96u}) {
    double least = 100;
    for (const double expected : {.5, 1.0, 1.4, 2.0, 2.5, 2.8, 3.0, 4.0, 6.0}) {
      const double p = expected / static_cast<double>(n);
      least = std::min(least, coverage({{lost(p), n}}, -p, difference_interval));
    }
    const double noisy = coverage({{lost(.05, .05), n}}, -.05, difference_interval);
    EXPECT_GE(least, 93) << n;
    EXPECT_GE(noisy, 93) << n;
    std::printf("  rare losses %3zu dialogues  at least %5.1f%%, lost or noise %5.1f%%\n", n, least,
                noisy);
  }
  // Only in the dataset with few dialogues.
  double least = 100;
  for (const double p : {.03, .05, .08, .11, .14, .2}) {
    least = std::min(least, coverage({{lost(p), 24}, {lost(0), 200}, {lost(0), 200}}, -p / 3,
                                     difference_interval));
  }
  EXPECT_GE(least, 93);
  std::printf("  rare losses in 24 of 24, 200, 200 dialogues  at least %5.1f%%\n", least);
}

// By chance, all dialogues of one dataset have the same score.
TEST(Coverage, IntervalsOfMeansWithAConstantDatasetCover) {
  for (const std::size_t n : {8u, 12u, 24u, 96u}) {
    const double judges = coverage({{judged(), n}, {binary(.95), n}}, .775, share_interval),
                 zeros = coverage({{mostly_zero(), n}, {binary(.95), n}}, .525, share_interval);
    EXPECT_GE(judges, 93) << n;
    EXPECT_GE(zeros, 93) << n;
    std::printf("  with 95: judged %3zu dialogues  %5.1f%%, mostly 0  %5.1f%%\n", n, judges, zeros);
  }
}

TEST(Coverage, IntervalsOfDifferencesCover) {
  expect_coverage("-5, sparse", changed(.055556, 0), -.05, difference_interval);
  expect_coverage("-10, continuous", shifted(.1), -.1, difference_interval);
  expect_coverage("-30", changed(1.0 / 3, 0), -.3, difference_interval);
  expect_coverage("0, sparse", changed(.02, .18), 0, difference_interval);
}

// All datasets have the same weight, regardless of their number of dialogues and difficulty.
TEST(Coverage, IntervalsOfMeansOverDatasetsCover) {
  const struct {
    std::vector<double> p;
    std::vector<std::size_t> n;
  } cases[] = {{{.98, .9, .5, .2}, {3, 3, 3, 3}},
               {{.98, .98, .98, .6}, {6, 6, 6, 6}},
               {{.98, .98, .98, .6}, {24, 24, 24, 24}},
               {{.98, .98}, {12, 100}},
               {{.9, .98}, {4, 100}},
               {{.9, .9}, {6, 18}},
               {{.3, .9}, {12, 24}},
               {{.9, .98, .98, .98}, {6, 100, 100, 100}},
               {{.95, .95, .95, .95}, {3, 5, 8, 20}}};
  for (const auto& c : cases) {
    std::vector<std::pair<Draw, std::size_t>> means, differences;
    double mean = 0, difference = 0;
    std::string name;
    for (std::size_t k = 0; k < c.p.size(); ++k) {
      means.emplace_back(binary(c.p[k]), c.n[k]);
      differences.emplace_back(changed(1 - c.p[k], 0), c.n[k]);
      mean += c.p[k] / static_cast<double>(c.p.size());
      difference -= .9 * (1 - c.p[k]) / static_cast<double>(c.p.size());
      name += fmt::format("{}{}x{}", k == 0 ? "" : " ", c.n[k], c.p[k]);
    }
    const double of_means = coverage(means, mean, share_interval),
                 of_differences = coverage(differences, difference, difference_interval);
    EXPECT_GE(of_means, 93) << name;
    EXPECT_GE(of_differences, 93) << name;
    std::printf("  %-36s means %5.1f%%  differences %5.1f%%\n", name.c_str(), of_means,
                of_differences);
  }
}

/// Scores of 0 or 1 with the mean .7 for questions about `texts` texts, `questions(i)` about text
/// i. Half of the questions share their text's random number.
template <typename Questions>
std::vector<std::vector<double>> draw_texts(Random& random, std::size_t texts,
                                            const Questions& questions) {
  std::vector<std::vector<double>> out(texts);
  for (std::size_t i = 0; i < texts; ++i) {
    const double luck = random.uniform();
    out[i].resize(questions(i));
    for (double& x : out[i]) x = (random.below(2) == 0 ? luck : random.uniform()) < .7 ? 1 : 0;
  }
  return out;
}

/// The percentages of trials whose intervals cover .7: of the mean of one dialogue for each
/// question, which are units by text, or for comparison, units of their own.
template <typename Questions>
std::pair<double, double> coverage_of_texts(std::size_t texts, const Questions& questions) {
  Random random(20260301);
  int grouped = 0, alone = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> scores;
    const auto units = std::make_shared<Units>(*test::population("texts", texts));
    std::vector<std::uint32_t> unit_of;
    const auto drawn = draw_texts(random, texts, questions);
    for (std::size_t i = 0; i < texts; ++i) {
      for (double x : drawn[i]) {
        scores.push_back(x);
        unit_of.push_back(static_cast<std::uint32_t>(i));
      }
    }
    auto by_text = std::make_shared<Population>(*test::population("p", scores.size()));
    const Stratum each = test::stratum(by_text, scores);
    const auto covers = [&] {
      const Contributions mean = contributions(std::vector<const Stratum*>{&each});
      const Interval ends = share_interval(mean.mean, spread_of(mean));
      return ends.low <= .7 && .7 <= ends.high;
    };
    alone += covers();
    by_text->units = units;
    by_text->unit_of = unit_of;
    grouped += covers();
  }
  return {100.0 * grouped / kTrials, 100.0 * alone / kTrials};
}

TEST(Coverage, IntervalsOfDialoguesThatShareTextsCover) {
  for (const std::size_t n : {12u, 24u, 96u}) {
    const auto [four, four_alone] = coverage_of_texts(n, [](std::size_t) { return 4; });
    const auto [mixed, mixed_alone] =
        coverage_of_texts(n, [](std::size_t i) { return 1 + i * i % 7; });
    EXPECT_GE(four, 93) << n;
    EXPECT_GE(mixed, 93) << n;
    EXPECT_LT(four_alone, 93) << n;
    std::printf(
        "  %3zu texts  4 dialogues each %5.1f%% (as units %5.1f%%), 1 to 5 each %5.1f%% "
        "(%5.1f%%)\n",
        n, four, four_alone, mixed, mixed_alone);
  }
}

// Times vary by a factor rather than a sum.
TEST(Coverage, IntervalsOfTimesCover) {
  const auto times = [](Random& random, std::size_t count) {
    return draw_dialogues(random, count, [&](double) { return std::exp(.3 * normal(random)); });
  };
  expect_coverage("times", times, std::exp(.045), value_interval);
}

// With the planned number of dialogues, four of five experiments detect the difference.
TEST(Power, EqualsTheRequestedPower) {
  Random random(8);
  const Draw draw = shifted(.03);
  const auto differences_of = [&](std::size_t count) {
    const Stratum s = test::stratum(test::population("p", count), draw(random, count));
    return contributions(std::vector<const Stratum*>{&s});
  };
  const Spread pilot = spread_of(differences_of(4000));
  const int needed = dialogues_needed(pilot, .03).value();
  EXPECT_GT(needed, 50);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Contributions d = differences_of(static_cast<std::size_t>(needed));
    const Spread spread = spread_of(d);
    Spread plain = spread;
    plain.pseudo_pair = 0;
    found += difference_interval(d.mean, plain).high < 0;
  }
  EXPECT_NEAR(100.0 * found / kTrials, 80, 4) << needed;
  EXPECT_LT(dialogues_needed(pilot, .06), needed / 2);
  EXPECT_GT(dialogues_needed(pilot, .03, .9), needed);
}

}  // namespace
}  // namespace turnbench
