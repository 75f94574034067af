// Round Attention's L_w for manually computed numbers.

#include "methods/actions/watershed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/methods/prescribed.h"

namespace turnbench::test {
namespace {

TEST(Watershed, WorkedExample) {
  const std::vector<std::vector<double>> shares = {
      {.7, .2, .1}, {.2, .2, .6}, {.1, .1, .8}, {.12, .1, .78}};
  const std::vector<double> d = layer_divergences(shares);
  ASSERT_EQ(d.size(), 3u);
  EXPECT_NEAR(d[0], 1.05277, 5e-6);
  EXPECT_NEAR(d[1], 0.09401, 5e-6);
  EXPECT_NEAR(d[2], 0.00202, 5e-6);
  // D falls monotonically: no minimum, and the first fall by half is at 2.
  EXPECT_EQ(watershed_layer(d, WatershedRule::kMinimum), 2);
  EXPECT_EQ(watershed_layer(d, WatershedRule::kDrop), 2);
}

TEST(Watershed, RulesDiffer) {
  const auto found = [](const std::vector<double>& d, WatershedRule rule) {
    return watershed_layer(d, rule);
  };
  // The drop at 2 is no minimum; the minimum is at 4.
  const std::vector<double> late = {1, .4, .3, .2, .25, .1};
  EXPECT_EQ(found(late, WatershedRule::kDrop), 2);
  EXPECT_EQ(found(late, WatershedRule::kMinimum), 4);
  // A minimum that is not deep enough is skipped; half refers to the largest value before, not to
  // the first.
  EXPECT_EQ(found({1, .8, 2, .9, 1.5}, WatershedRule::kMinimum), 4);
  EXPECT_EQ(found({1, .8, 2, .9, 1.5}, WatershedRule::kDrop), 4);
  EXPECT_EQ(found({1, .9, .8}, WatershedRule::kMinimum), std::nullopt);
  EXPECT_EQ(found({}, WatershedRule::kMinimum), std::nullopt);
  // Equal neighbours are no obstacle.
  EXPECT_EQ(found({1, .2, .2, .3}, WatershedRule::kMinimum), 2);
}

TEST(Watershed, SharesHaveALowerBound) {
  EXPECT_EQ(kl_divergence(std::vector{.5, .5}, std::vector{.5, .5}), 0);
  const double floor = 1e-6 / (1 + 1e-6), rest = 1 / (1 + 1e-6);
  EXPECT_NEAR(kl_divergence(std::vector{1., 0.}, std::vector{0., 1.}),
              rest * std::log(rest / floor) + floor * std::log(floor / rest), 1e-12);
}

TEST(Watershed, RoundsExcludeTextBeforeTheFirstTurn) {
  using Kind = SpanKind;
  const std::vector<Span> spans = {
      {Kind::kMarkup, 0, 0, 3},   {Kind::kQuestion, 0, 3, 5},   {Kind::kCue, 0, 5, 6},
      {Kind::kAnswer, 0, 6, 9},   {Kind::kMarkup, 1, 9, 10},    {Kind::kQuestion, 1, 10, 12},
      {Kind::kAnswer, 1, 12, 12}, {Kind::kQuestion, 2, 12, 20},
  };
  EXPECT_EQ(earlier_rounds(spans, 2), (std::vector<PositionRange>{{3, 9}, {9, 12}}));
  EXPECT_EQ(earlier_rounds(spans, 1), (std::vector<PositionRange>{{3, 9}}));
  EXPECT_TRUE(earlier_rounds(spans, 0).empty());
}

// Two heads, two question rows: rounds of one and two tokens after a token that is in no round.
TEST(Watershed, SharesOfRounds) {
  const Rows first = {{1},
                      {.5, .5},
                      {.2, .3, .5},
                      {.1, .2, .3, .4},
                      {.1, .2, .2, .2, .3},
                      {.1, .1, .3, .1, .1, .3}};
  Rows second = first;
  second[5] = {.2, .4, .1, .1, .1, .1};
  PrescribedLayer layer({first, second}, 1, 2);
  const LayerView view = layer.view();
  LayerSums sums(view);
  const std::vector<PositionRange> rounds = {{1, 2}, {2, 4}};
  const std::vector<double> all = round_shares(sums, {4, 6}, rounds);
  // Rows 4 and 5: round 0 gets .2 + .1 and .2 + .4, round 1 .4 + .4 and .4 + .2.
  EXPECT_NEAR(all[0], .9 / 2.3, 1e-6);
  EXPECT_NEAR(all[1], 1.4 / 2.3, 1e-6);
  const std::vector<double> last = round_shares(sums, {5, 6}, rounds);
  EXPECT_NEAR(last[0], .5 / 1.1, 1e-6);
}

TEST(Watershed, RoundsWithoutAttentionHaveNoShares) {
  PrescribedLayer layer({{{1}, {.5, .5}, {.2, .3, .5}}}, 1, 1);
  const LayerView view = layer.view();
  LayerSums sums(view);
  EXPECT_TRUE(round_shares(sums, {2, 3}, std::vector<PositionRange>{{0, 0}, {1, 1}}).empty());
}

}  // namespace
}  // namespace turnbench::test
