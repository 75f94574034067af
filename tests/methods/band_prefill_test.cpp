// A-shape and tri-shape, compared with explicit masks.

#include "prefill_reference.h"

namespace turnbench {
namespace {

using namespace test;

std::int64_t pairs(const std::string& spec, int n) {
  Layer layer(1, 1, 16, n, n, 1);
  return pattern_pairs(plan(spec, layer)[0], {0, n});
}

// n = 8, n_init = 1, n_local = 3.
TEST(AShape, WorkedExample) {
  Layer layer(1, 1, 16, 8, 8, 1);
  const auto patterns = plan("a-shape:n_init=1,n_local=3", layer);
  EXPECT_EQ(rows_of(patterns[0], {0, 8})[5], (std::vector<std::int32_t>{0, 3, 4, 5}));
  EXPECT_EQ(pairs("a-shape:n_init=1,n_local=3", 8), 26);
}

TEST(AShape, EqualsItsMask) {
  for (const auto& sizes : {std::pair{3, 40}, {128, 200}, {0, 1}}) {
    const int sinks = sizes.first, local = sizes.second;
    for_each_size([&](Layer& layer) {
      expect_equal(layer, plan(fmt::format("a-shape:n_init={},n_local={}", sinks, local), layer),
                   [&](int, int i, int j) { return i - j < local || j < sinks; });
    });
  }
}

TEST(AShape, LocalWindowsOfOneGiveTheRowsOwnValues) {
  Layer layer(1, 2, 16, 100, 100, 4);
  const std::vector<float> out = attend(layer, plan("a-shape:n_init=0,n_local=1", layer));
  for (int i = 0; i < 100; ++i) {
    for (int c = 0; c < 32; ++c) {
      ASSERT_NEAR(out[i * 32 + c], layer.values[0][i * 16 + c % 16], 1e-6);
    }
  }
}

TEST(AShape, WindowsOfEverythingAreFullAttention) {
  Layer layer(2, 2, 32, 150, 150, 5);
  const std::vector<float> full = attend(layer, {});
  const std::vector<float> got = attend(layer, plan("a-shape", layer));
  for (std::size_t i = 0; i < full.size(); ++i) ASSERT_NEAR(got[i], full[i], 1e-5);
}

TEST(AShape, LayersAndLaterTurnsCanBeDense) {
  Layer layer(1, 1, 16, 100, 40, 6);
  EXPECT_TRUE(plan("a-shape:starting_layer=2,n_local=8", layer, 1).empty());
  EXPECT_EQ(plan("a-shape:starting_layer=2,n_local=8", layer, 2).size(), 1u);
  EXPECT_TRUE(plan("a-shape:followup=dense", layer).empty());
  Layer first(1, 1, 16, 100, 100, 6);
  EXPECT_EQ(plan("a-shape:followup=dense", first).size(), 1u);
}

// Rows of earlier turns would be computed identically, so a prompt can continue from their cache;
// this does not hold for the dense rows of a tri-shape.
TEST(BandPrefill, ContinuesOnlyIfEarlierRowsAreKept) {
  const auto continues = [](const std::string& spec) {
    return Method::parse(spec).make().prefill->reuses_cached_prompt();
  };
  EXPECT_TRUE(continues("a-shape"));
  EXPECT_FALSE(continues("a-shape:followup=dense"));
  EXPECT_FALSE(continues("tri-shape"));
  EXPECT_TRUE(continues("tri-shape:n_last=0"));
}

// The same with the last two rows dense; n_last = 0 is A-shape.
TEST(TriShape, WorkedExample) {
  EXPECT_EQ(pairs("tri-shape:n_init=1,n_local=3,n_last=2", 8), 33);
  EXPECT_EQ(pairs("tri-shape:n_init=1,n_local=3,n_last=0", 8), 26);
}

TEST(TriShape, EqualsItsMask) {
  for (const int last : {2, 100}) {
    for_each_size([&](Layer& layer) {
      const int dense = std::min(last, layer.rows - 1);  // clamped to nq - 1
      expect_equal(layer, plan(fmt::format("tri-shape:n_init=5,n_local=70,n_last={}", last), layer),
                   [&](int, int i, int j) { return i - j < 70 || j < 5 || i >= layer.n - dense; });
    });
  }
}

// TriangleMix: dense lower layers.
TEST(TriShape, StartsAtALayer) {
  const std::string mix = "tri-shape:n_init=8,n_local=512,n_last=128,starting_layer=16";
  Layer layer(1, 1, 16, 700, 700, 7);
  EXPECT_TRUE(plan(mix, layer, 15).empty());
  EXPECT_EQ(plan(mix, layer, 16)[0].dense_rows, 128);
}

}  // namespace
}  // namespace turnbench
