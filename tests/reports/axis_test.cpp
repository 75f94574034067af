#include "reports/axis.h"

#include <gtest/gtest.h>

namespace turnbench {
namespace {

std::vector<std::string> texts(const Axis& axis) {
  std::vector<std::string> out;
  for (const Axis::Tick& tick : axis.ticks) out.push_back(tick.text);
  return out;
}

using Texts = std::vector<std::string>;

TEST(Axis, OfSharesEndsAtHundred) {
  const Axis axis = share_axis("mean score (x100)");
  EXPECT_EQ(texts(axis), (Texts{"0", "20", "40", "60", "80", "100"}));
  EXPECT_DOUBLE_EQ(axis.place(25), .25);
  EXPECT_DOUBLE_EQ(axis.place(120), 1);
}

TEST(Axis, LinearTicksAreRoundNumbersThatContainZero) {
  EXPECT_EQ(texts(linear_axis("", {-0.3, 0.02})),
            (Texts{"-0.3", "-0.25", "-0.2", "-0.15", "-0.1", "-0.05", "0", "0.05"}));
  EXPECT_EQ(texts(linear_axis("", {3, 17})),
            (Texts{"0", "2", "4", "6", "8", "10", "12", "14", "16", "18"}));
  EXPECT_EQ(linear_axis("", {}).last, 1);
}

// On a logarithmic axis, equal factors have equal distances.
TEST(Axis, LogarithmicPlaces) {
  const Axis axis = log_axis("budget", {1024, 64, 256, 64}, {"1024", "64", "256", "64"});
  EXPECT_EQ(texts(axis), (Texts{"64", "256", "1024"}));
  EXPECT_NEAR(axis.place(256) - axis.place(64), axis.place(1024) - axis.place(256), 1e-12);
  EXPECT_GT(axis.place(64), 0) << "a margin";
  EXPECT_LT(axis.place(1024), 1);
}

TEST(Axis, LogarithmicTicksLeaveRoomForTheirLabels) {
  EXPECT_EQ(texts(log_axis("", {1, 1.01, 100}, {"1", "1.01", "100"})), (Texts{"1", "100"}));
  const Axis axis = log_axis("tokens", {180, 4000});
  EXPECT_EQ(axis.label, "tokens, logarithmic");
  EXPECT_EQ(log_axis("", {1, 2}).label, "");
  EXPECT_EQ(texts(axis), (Texts{"200", "500", "1000", "2000"}));
  const Axis wide = log_axis("tokens", {1, 1e9});
  for (std::size_t i = 1; i < wide.ticks.size(); ++i)
    EXPECT_GE(wide.place(wide.ticks[i].at) - wide.place(wide.ticks[i - 1].at), .08);
}

TEST(Axis, OneValueIsInTheMiddle) {
  EXPECT_NEAR(log_axis("", {7}, {"7"}).place(7), .5, 1e-12);
}

}  // namespace
}  // namespace turnbench
