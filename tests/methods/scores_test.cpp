#include "methods/parts/scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"

namespace turnbench {
namespace {

using Floats = std::vector<float>;

void expect_near(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
}

// A worked example of SnapKV's pooling.
TEST(Pooling, WorkedExample) {
  const Floats scores = {.1f, 0, .6f, 0, .1f, .2f};
  expect_near(pool1d(scores, 3, Pooling::kAvg), {.0333f, .2333f, .2f, .2333f, .1f, .1f});
  expect_near(pool1d(scores, 3, Pooling::kMax), {.1f, .6f, .6f, .6f, .2f, .2f});
  expect_near(pool1d(scores, 1, Pooling::kMax), scores);
  expect_near(pool1d(scores, 7, Pooling::kNone), scores);
}

// Average pooling and the mean over the group commute; maximum pooling does not.
TEST(Pooling, OrderAgainstTheGroupMean) {
  HeadScores heads;
  heads.stride = 6;
  heads.data = {.1f, 0, .6f, 0, .1f, .2f, .5f, .1f, 0, 0, .3f, .1f};
  const auto pooled_mean = [&](Pooling p) {
    const Floats a = pool1d(heads.head(0, 6), 3, p), b = pool1d(heads.head(1, 6), 3, p);
    Floats out;
    for (std::size_t i = 0; i < 6; ++i) out.push_back((a[i] + b[i]) / 2);
    return out;
  };
  const Floats mean = group_scores(heads, 0, 2, 6, GroupRule::kMean);
  expect_near(pool1d(mean, 3, Pooling::kAvg), pooled_mean(Pooling::kAvg));
  EXPECT_NE(pool1d(mean, 3, Pooling::kMax), pooled_mean(Pooling::kMax));
}

// Sum compared with maximum over the group.
TEST(GroupScores, Rules) {
  HeadScores heads;
  heads.stride = 3;
  heads.data = {.6f, .4f, 0, 0, .4f, .6f};
  EXPECT_EQ(top_k(group_scores(heads, 0, 2, 3, GroupRule::kSum), 1), std::vector<std::int32_t>{1});
  EXPECT_EQ(top_k(group_scores(heads, 0, 2, 3, GroupRule::kMax), 1), std::vector<std::int32_t>{0});
  expect_near(group_scores(heads, 0, 2, 3, GroupRule::kMean), {.3f, .4f, .3f});
}

// Higher score first, then the lower index; NaN is an error.
TEST(TopK, OfRowsTogether) {
  using Lists = std::vector<std::vector<std::int32_t>>;
  const std::vector<Floats> rows = {{1, 5}, {}, {5, 2, 4}, {0}};
  EXPECT_EQ(top_k_of_rows(rows, 1), (Lists{{1}, {}, {}, {}})) << "ties go to the lower row";
  EXPECT_EQ(top_k_of_rows(rows, 3), (Lists{{1}, {}, {0, 2}, {}}));
  EXPECT_EQ(top_k_of_rows(rows, 9), (Lists{{0, 1}, {}, {0, 1, 2}, {0}}));
  EXPECT_EQ(top_k_of_rows({}, 2), Lists{});
}

TEST(TopK, TiesAndNan) {
  EXPECT_EQ(top_k(Floats{1, 2, 2, 2, 0}, 2), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(top_k(Floats{1, 1, 1}, 9), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(top_k(Floats{1, 1}, 0), std::vector<std::int32_t>{});
  EXPECT_EQ(top_k(Floats{.5f, .1f, .2f, .05f, .1f, .05f}, 3), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_THROW(top_k(Floats{1, NAN}, 1), Error);
}

}  // namespace
}  // namespace turnbench
