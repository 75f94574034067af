// The numbers of tokens at which layers move to host memory, compared with worked examples.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "methods/parts/placement_thresholds.h"

namespace turnbench {
namespace {

using Formula = PlacementMemory::Formula;
using Tokens = std::vector<std::int64_t>;

// 24 GB for Llama-3-8B with a head of 60 MB and 2048 tokens: 24 - 1.3 (16.06 + 0.06) GB are left.
PlacementMemory llama_on_24_gb(Formula formula) {
  return {.bytes = 24e9 - 1.3 * (16.06e9 + 0.06e9),
          .layers = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .group = 4,
          .budget = 2048,
          .formula = formula};
}

Tokens thresholds_at(const Tokens& all, const std::vector<std::size_t>& indices) {
  Tokens out;
  for (const std::size_t i : indices) out.push_back(all[i]);
  return out;
}

TEST(PlacementThresholds, AreThoseOfTheWorkedExample) {
  const Tokens corrected = placement_thresholds(llama_on_24_gb(Formula::kCorrected));
  EXPECT_EQ(corrected.size(), 33u);
  EXPECT_EQ(thresholds_at(corrected, {0, 1, 2, 8, 16, 31, 32}),
            (Tokens{20085, 20586, 21116, 25061, 33828, 113279, 135525}));
  EXPECT_EQ(thresholds_at(placement_thresholds(llama_on_24_gb(Formula::kPrinted)),
                          {0, 1, 2, 8, 16, 31, 32}),
            (Tokens{20085, 20629, 21204, 25485, 34998, 121215, 145356}));
}

TEST(PlacementThresholds, HandlesTwoLayers) {
  PlacementMemory m{.bytes = 800, .layers = 2, .kv_heads = 1, .head_dim = 1, .budget = 10};
  EXPECT_EQ(placement_thresholds(m), (Tokens{50, 63, 90}));
  m.formula = Formula::kPrinted;
  EXPECT_EQ(placement_thresholds(m), (Tokens{50, 65, 97}));
  m.formula = Formula::kExact;  // 800 / (4 * 3), 760 / (4 * 2), 720 / 4
  EXPECT_EQ(placement_thresholds(m), (Tokens{66, 95, 180}));
  m.formula = Formula::kCorrected;
  m.requests = 2;
  EXPECT_EQ(placement_thresholds(m), (Tokens{25, 30, 40}));
  m.requests = 1;
  m.element = 4;
  EXPECT_EQ(placement_thresholds(m), (Tokens{25, 30, 40}));
  m.bytes = -5;
  EXPECT_EQ(placement_thresholds(m), (Tokens{0, 0, 0}));
}

TEST(PlacementThresholds, LayersAreOffloadedAtTheirThresholds) {
  const Tokens thresholds = {50, 63, 90};
  for (const auto& [tokens, layers] :
       {std::pair(1, 0), std::pair(49, 0), std::pair(50, 1), std::pair(62, 1), std::pair(63, 2),
        std::pair(89, 2), std::pair(90, 2), std::pair(1000, 2)})
    EXPECT_EQ(layers_on_host(thresholds, tokens), layers) << tokens;
}

}  // namespace
}  // namespace turnbench
