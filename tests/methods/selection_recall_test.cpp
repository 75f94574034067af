#include "methods/parts/selection_recall.h"

#include <gtest/gtest.h>

#include "tests/methods/layer.h"
#include "tests/methods/prescribed.h"

namespace turnbench {
namespace {

// The tokens with the highest attention of a head, found one by one in double precision.
TEST(SelectionRecall, IsTheShareOfTheBestTokens) {
  constexpr int n = 60, k = 10, kSets = 2, kGroup = 2;
  test::Layer layer(kSets, kGroup, 8, n, 1, 3);
  std::vector<std::vector<std::int32_t>> best, first;
  for (int h = 0; h < kSets * kGroup; ++h) {
    std::vector<std::int32_t> order = all_slots(n);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return layer.probability(h, n - 1, a) > layer.probability(h, n - 1, b);
    });
    order.resize(k);
    std::sort(order.begin(), order.end());
    best.push_back(order);
    first.push_back(all_slots(k));
  }
  EXPECT_EQ(selection_recall(layer.view(), {}), 1) << "everything is read";
  EXPECT_EQ(selection_recall(layer.view(), {best}), 1);
  double want = 0;
  for (const auto& list : best)
    want += static_cast<double>(std::lower_bound(list.begin(), list.end(), k) - list.begin()) / k;
  EXPECT_DOUBLE_EQ(selection_recall(layer.view(), {first}), want / (kSets * kGroup));
}

// Tokens whose attention is 0 are equally good.
TEST(SelectionRecall, TokensWithoutAttentionDoNotCount) {
  test::PrescribedLayer layer({test::rows_like({.6, 0, 0, .4, 0, 0})}, 1, 1);
  for (float& q : layer.queries) q = q < -500 ? -1e6f : q;  // 1e-30 in the reference
  layer.tail.clear();
  layer.tail.push(layer.queries.data() + (layer.n - 1) * 64, layer.n - 1);
  const auto recall = [&](const std::vector<std::int32_t>& slots) {
    return selection_recall(layer.view(), {{slots}});
  };
  EXPECT_EQ(recall({0, 3, 4, 5}), 1);
  EXPECT_EQ(recall({1, 2, 3, 4}), 0.5);
  EXPECT_EQ(recall({0}), 1);
  EXPECT_EQ(recall({3}), 0);
}

}  // namespace
}  // namespace turnbench
