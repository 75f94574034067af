#include <fmt/format.h>
#include <gtest/gtest.h>

#include "layer.h"
#include "methods/line_selection.h"
#include "methods/method.h"

namespace turnbench {
namespace {

using test::Layer;

std::vector<HeadPattern> plan(const std::string& spec, Layer& layer, int at = 0) {
  const Policies p = Method::parse(spec).make();
  return p.prefill->plan(layer.view(at));
}

TEST(LoopServePrefill, AlphaOneIsDense) {
  Layer layer(1, 2, 16, 80, 80, 1);
  EXPECT_TRUE(plan("loopserve-prefill:alpha=1", layer).empty());
}

// With at most `samples` rows every row is sampled: the recovered share is exact.
TEST(LoopServePrefill, RecoversAlphaOfTheAttention) {
  for (const char* mask : {"line", "block64"}) {
    Layer layer(2, 3, 32, 150, 60, 7);
    for (double alpha : {0.5, 0.9, 0.99}) {
      const auto patterns =
          plan(fmt::format("loopserve-prefill:alpha={},mask={}", alpha, mask), layer);
      ASSERT_EQ(patterns.size(), 6u);
      const PatternPass pass{90, 60};
      for (int h = 0; h < 6; ++h) {
        double covered = 0;
        for (int i = 90; i < 150; ++i) {
          for (int j = 0; j <= i; ++j) {
            if (pattern_has(patterns[static_cast<std::size_t>(h)], pass, i, j))
              covered += layer.probability(h, i, j);
          }
          EXPECT_TRUE(pattern_has(patterns[static_cast<std::size_t>(h)], pass, i, i));
        }
        EXPECT_GE(covered, alpha * 60 * (1 - 1e-4));
        if (std::string(mask) == "line") {
          EXPECT_LT(covered, 60);
        }
      }
    }
  }
}

// One sample per dialogue and turn, for all layers and heads; another turn draws another one.
TEST(LoopServePrefill, SamplesDependOnDialogueAndTurnAlone) {
  Layer layer(1, 1, 16, 400, 400, 3);
  layer.dialogue.seed = 5;
  const auto a = plan("loopserve-prefill:samples=16", layer, 0),
             b = plan("loopserve-prefill:samples=16", layer, 3);
  EXPECT_EQ(a[0].columns, b[0].columns);
  EXPECT_EQ(a[0].offsets, b[0].offsets);
  layer.dialogue.turn = 1;
  const auto c = plan("loopserve-prefill:samples=16", layer, 0);
  EXPECT_TRUE(a[0].columns != c[0].columns || a[0].offsets != c[0].offsets);
}

TEST(LoopServePrefill, GroupsCanShareTheirLines) {
  Layer layer(2, 3, 16, 120, 120, 3);
  const auto own = plan("loopserve-prefill:alpha=0.8", layer),
             shared = plan("loopserve-prefill:alpha=0.8,gqa=group", layer);
  EXPECT_EQ(shared[0].columns, shared[2].columns);
  EXPECT_EQ(shared[3].offsets, shared[5].offsets);
  EXPECT_TRUE(own[0].columns != own[1].columns || own[0].offsets != own[1].offsets);
}

}  // namespace
}  // namespace turnbench
