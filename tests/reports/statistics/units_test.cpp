// Dialogues that share texts are one unit: like the turns of one dialogue, or like one dialogue at
// several positions.

#include <gtest/gtest.h>

#include "common/random.h"
#include "reports/estimate.h"
#include "reports/populations.h"
#include "tests/reports/strata.h"

namespace turnbench {
namespace {

using test::population;
using test::stratum;

std::vector<double> draw(Random& random, std::size_t count) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(random.below(3) == 0 ? 0 : 1);
  return out;
}

Difference difference_of(const std::vector<StratumPair>& pairs) {
  const std::vector<std::vector<StratumPair>> family(1, pairs);
  return compare(family).at(0).value();
}

void expect_same(const Estimate& a, const Estimate& b) {
  EXPECT_NEAR(a.mean, b.mean, 1e-12);
  EXPECT_NEAR(a.interval.value().low, b.interval.value().low, 1e-9);
  EXPECT_NEAR(a.interval.value().high, b.interval.value().high, 1e-9);
}

TEST(Units, DatasetsWithTheSameTextsAreLikePositions) {
  Random random(1);
  constexpr std::size_t kCount = 20;
  HashedDialogues first, second;
  const auto one = population("a b", kCount);
  for (const std::string& id : one->ids) first[id] = second[id] = {"text " + id};
  const auto of = make_populations({{"a", first}, {"b", second}});
  std::vector<Stratum> shared, positions;
  for (const auto& scores :
       {draw(random, kCount), draw(random, kCount), draw(random, kCount), draw(random, kCount)}) {
    const bool is_first = shared.size() % 2 == 0;
    shared.push_back(stratum(of.at(is_first ? "a" : "b"), scores));
    positions.push_back(stratum(one, scores));
  }
  expect_same(estimate({&shared[0], &shared[1]}), estimate({&positions[0], &positions[1]}));
  EXPECT_EQ(estimate({&shared[0], &shared[1]}).dialogues, 40);
  EXPECT_EQ(estimate({&shared[0], &shared[1]}).units, 20);
  // The methods are strata 0 and 1, and 2 and 3.
  const std::vector<StratumPair> pairs = {{&shared[0], &shared[2]}, {&shared[1], &shared[3]}},
                                 same_pairs = {{&positions[0], &positions[2]},
                                               {&positions[1], &positions[3]}};
  const Difference ours = difference_of(pairs), same = difference_of(same_pairs);
  expect_same(ours.estimate, same.estimate);
  EXPECT_EQ(ours.against_zero.p, same.against_zero.p);
}

TEST(Units, DialoguesWithTheSameTextAreLikeTurns) {
  Random random(2);
  HashedDialogues dialogues;
  for (std::size_t i = 0; i < 24; ++i)
    dialogues[fmt::format("d{:03}", i)] = {fmt::format("text {}", i / 2), fmt::format("own {}", i)};
  const auto of = make_populations({{"a", dialogues}}).at("a");
  const std::vector<double> scores = draw(random, 24), baseline = draw(random, 24);
  std::vector<std::vector<double>> turns(12), baseline_turns(12);
  for (std::size_t i = 0; i < 24; ++i) {
    turns[i / 2].push_back(scores[i]);
    baseline_turns[i / 2].push_back(baseline[i]);
  }
  const auto alone = population("a", 12);
  const Stratum shared = stratum(of, scores), shared_baseline = stratum(of, baseline),
                one = stratum(alone, turns), one_baseline = stratum(alone, baseline_turns);
  expect_same(estimate({&shared}), estimate({&one}));
  EXPECT_EQ(estimate({&shared}).dialogues, 24);
  EXPECT_EQ(estimate({&one}).dialogues, 12);
  EXPECT_EQ(estimate({&shared}).units, 12);
  EXPECT_EQ(estimate({&one}).units, 12);
  const std::vector<StratumPair> pairs = {{&shared, &shared_baseline}},
                                 same_pairs = {{&one, &one_baseline}};
  expect_same(difference_of(pairs).estimate, difference_of(same_pairs).estimate);
}

TEST(Units, OneTextHasNoInterval) {
  const HashedDialogues dialogues = {{"a", {"x", "y"}}, {"b", {"y", "z"}}, {"c", {"z"}}};
  const auto of = make_populations({{"p", dialogues}}).at("p");
  const Stratum s = stratum(of, std::vector<double>{0, 1, 1});
  EXPECT_FALSE(estimate({&s}).interval.has_value());
}

TEST(Units, AreConnectedByTexts) {
  const auto of =
      make_populations({{"p", {{"a", {"1"}}, {"b", {"1", "2"}}, {"c", {"2"}}, {"d", {}}}},
                        {"q", {{"a", {}}, {"x", {"3"}}}},
                        {"r", {{"y", {"4", "3"}}, {"z", {"5"}}}}});
  const Population &p = *of.at("p"), &q = *of.at("q"), &r = *of.at("r");
  EXPECT_EQ(p.unit_of, (std::vector<std::uint32_t>{0, 0, 0, 1})) << "a and c through b";
  EXPECT_EQ(p.units->ids, (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(q.units, r.units);
  EXPECT_NE(q.units, p.units);
  EXPECT_EQ(q.unit_of, (std::vector<std::uint32_t>{0, 1})) << "equal ids alone do not connect";
  EXPECT_EQ(r.unit_of, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(q.ids, (std::vector<std::string>{"a", "x"}));
}

TEST(Units, WithoutCommonTextsAreTheDialogues) {
  const auto of = make_populations({{"p", {{"a", {"1"}}, {"b", {"2"}}}},
                                    {"old", {{"a", {}}, {"b", {}}}},
                                    {"examples", {{"a", {"6", "7"}}, {"b", {"6", "8"}}}}});
  for (const auto& [name, population] : of) {
    EXPECT_EQ(population->units, nullptr) << name;
    EXPECT_EQ(population->name, name);
    EXPECT_EQ(population->ids, (std::vector<std::string>{"a", "b"}));
  }
}

}  // namespace
}  // namespace turnbench
