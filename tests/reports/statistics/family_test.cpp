#include "reports/statistics/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/random.h"
#include "reports/statistics/sign_flips.h"
#include "tests/reports/strata.h"

namespace turnbench {
namespace {

using Differences =
    std::vector<std::vector<double>>;  // members x dialogues: differences of one turn

/// A family of methods on the dialogues of one dataset; the baseline scores 0 everywhere.
std::vector<Contributions> family_of(const Differences& rows, const std::string& name = "p") {
  const auto population = test::population(name, rows.front().size());
  const Stratum zero = test::stratum(population, std::vector<double>(population->ids.size(), 0.0));
  std::vector<Contributions> out;
  for (const std::vector<double>& row : rows) {
    const Stratum s = test::stratum(population, row);
    out.push_back(contributions(std::vector<StratumPair>{{&s, &zero}}));
  }
  return out;
}

std::vector<PValue> test_rows(const Differences& rows, Adjustment adjustment = Adjustment::kMaxT) {
  const std::vector<Contributions> family = family_of(rows);
  std::vector<const Contributions*> pointers;
  for (const Contributions& member : family) pointers.push_back(&member);
  return test_family(pointers, adjustment);
}

/// |sum e d| / sqrt(sum d^2) under the flip with these bits.
double statistic(const std::vector<double>& row, std::uint64_t flip) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    sum += (flip >> i & 1) != 0 ? -row[i] : row[i];
    squares += row[i] * row[i];
  }
  return squares == 0 ? 0 : std::abs(sum) / std::sqrt(squares);
}

/// The definition: the share of flips for which the largest statistic, among the members that are
/// not more extreme, reaches the member's observed one; at least the value of more extreme members.
std::vector<PValue> by_definition(const Differences& rows) {
  const std::uint64_t flips = std::uint64_t{1} << rows.front().size();
  std::vector<PValue> out(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double own = statistic(rows[i], 0);
    double reached = 0, family_reached = 0;
    for (std::uint64_t flip = 0; flip < flips; ++flip) {
      double largest = 0;
      for (const std::vector<double>& row : rows) {
        if (statistic(row, 0) <= own + 1e-12) largest = std::max(largest, statistic(row, flip));
      }
      reached += statistic(rows[i], flip) >= own - 1e-9;
      family_reached += largest >= own - 1e-9;
    }
    out[i] = {reached / static_cast<double>(flips), family_reached / static_cast<double>(flips)};
  }
  std::vector<PValue> monotone = out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) {
      if (statistic(rows[j], 0) >= statistic(rows[i], 0))
        monotone[i].adjusted = std::max(monotone[i].adjusted, out[j].adjusted);
    }
  }
  return monotone;
}

Differences random_rows(Random& random, std::size_t members, std::size_t dialogues, bool binary) {
  Differences rows(members, std::vector<double>(dialogues));
  for (std::size_t m = 0; m < members; ++m) {
    const double shift = .1 * static_cast<double>(m);
    for (double& x : rows[m]) {
      const double draw = random.uniform() - shift;
      x = !binary ? draw - .5 : draw < .3 ? -1 : draw > .75 ? 1 : 0;
    }
  }
  return rows;
}

TEST(SignFlips, EnumerateAllFlipsOfFewDialogues) {
  Random random(3);
  for (std::size_t dialogues = 1; dialogues <= SignFlips::kMaxEnumerated; ++dialogues) {
    for (const bool binary : {false, true}) {
      const Differences rows = random_rows(random, 4, dialogues, binary);
      const std::vector<PValue> got = test_rows(rows), want = by_definition(rows);
      for (std::size_t m = 0; m < rows.size(); ++m) {
        EXPECT_NEAR(got[m].p, want[m].p, 1e-12) << dialogues << " " << m << " " << binary;
        EXPECT_NEAR(got[m].adjusted, want[m].adjusted, 1e-12) << dialogues << " " << m;
      }
    }
  }
}

TEST(SignFlips, RandomFlipsApproximateAllFlips) {
  Random random(4);
  for (const bool binary : {false, true}) {
    const Differences rows = random_rows(random, 4, 14, binary);
    const std::vector<PValue> got = test_rows(rows), want = by_definition(rows);
    for (std::size_t m = 0; m < rows.size(); ++m) {  // 4 standard errors with 4,999 draws
      EXPECT_NEAR(got[m].p, want[m].p, .029) << m;
      EXPECT_NEAR(got[m].adjusted, want[m].adjusted, .029) << m;
      EXPECT_GE(got[m].p, 1.0 / 5000);
    }
  }
}

TEST(SignFlips, FourDialoguesCannotBeSignificant) {
  const std::vector<PValue> p = test_rows({{1, 1, 1, 1}});
  EXPECT_EQ(p[0].p, .125);
  EXPECT_EQ(test_rows({{0, 0, 0, 0}})[0].p, 1);
  EXPECT_EQ(test_rows({{1}})[0].p, 1);
}

// The sums, computed in groups of eight, equal the product of the matrices.
TEST(SignFlips, SumsAreTheProductOfMatrices) {
  Random random(5);
  const Differences rows = random_rows(random, 2, 37, false);
  const std::vector<Contributions> family = family_of(rows);
  const SignFlips flips({&family[0], &family[1]});
  ASSERT_EQ(flips.count(), SignFlips::kFlips);
  ASSERT_FALSE(flips.are_all());
  const std::vector<double> sums = flips.sums(family[1]);
  std::vector<Random> of_dialogue;
  for (const std::string& id : family[1].populations[0].units->ids)
    of_dialogue.push_back(Random::from({seed_of("sign flips"), seed_of("p"), seed_of(id)}));
  std::vector<std::uint64_t> words(of_dialogue.size());
  for (std::size_t flip = 0; flip < flips.count(); ++flip) {
    double sum = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (flip % 64 == 0) words[i] = of_dialogue[i].next();
      const double part = rows[1][i] / 37;
      sum += (words[i] >> flip % 64 & 1) != 0 ? -part : part;
    }
    ASSERT_NEAR(sums[flip], std::abs(sum), 1e-12) << flip;
  }
}

// Other rows and their order change neither p nor the adjusted p.
TEST(SignFlips, DoNotDependOnOrderOrOtherRows) {
  Random random(6);
  Differences rows = random_rows(random, 5, 30, true);
  const std::vector<PValue> one = test_rows(rows);
  Differences turned(rows.rbegin(), rows.rend());
  const std::vector<PValue> other = test_rows(turned);
  for (std::size_t m = 0; m < rows.size(); ++m) {
    EXPECT_EQ(one[m].p, other[rows.size() - 1 - m].p);
    EXPECT_EQ(one[m].adjusted, other[rows.size() - 1 - m].adjusted);
    EXPECT_EQ(one[m].p, test_rows({rows[m]})[0].p) << m;
  }
}

TEST(Holm, WorkedExample) {
  const std::vector<double> got = holm({.01, .04, .03, .005});
  const double want[] = {.03, .06, .06, .02};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << i;
  EXPECT_EQ(holm({.6, .7}), (std::vector<double>{1, 1}));
  EXPECT_TRUE(holm({}).empty());
}

// At most 5% of the families without differences show one.  If entries are correlated, step-down
// maxT detects differences that Holm's method no longer detects.
TEST(MaxT, ControlsTheFamilywiseError) {
  constexpr int kFamilies = 300, kMembers = 20, kDialogues = 24;
  Random random(7);
  const auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.uniform();
    return sum;
  };
  int plain = 0, adjusted = 0, by_holm = 0, found = 0;
  for (int f = 0; f < kFamilies; ++f) {
    Differences rows(kMembers, std::vector<double>(kDialogues));
    for (int d = 0; d < kDialogues; ++d) {
      const double common = normal();
      for (std::vector<double>& row : rows) row[d] = common + .5 * normal();
    }
    const auto any = [](const std::vector<PValue>& p, double PValue::*which) {
      return std::any_of(p.begin(), p.end(), [&](const PValue& x) { return x.*which <= .05; });
    };
    const std::vector<PValue> p = test_rows(rows);
    plain += any(p, &PValue::p);
    adjusted += any(p, &PValue::adjusted);
    by_holm += any(test_rows(rows, Adjustment::kHolm), &PValue::adjusted);
    for (double& x : rows[0]) x += 1.2;
    found += test_rows(rows)[0].adjusted <= .05;
  }
  EXPECT_GT(plain, kFamilies * .10) << "20 chances";
  EXPECT_LE(adjusted, kFamilies * .085) << "5%, and three standard errors";
  EXPECT_LE(by_holm, adjusted);
  EXPECT_GE(found, kFamilies * .9);
}

}  // namespace
}  // namespace turnbench
