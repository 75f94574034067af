#include "inference/engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/error.h"

namespace turnbench {
namespace {

TEST(Sampler, GreedyTakesTheLowestOfTheLargest) {
  const std::vector<float> logits = {1, 3, -2, 3, 3};
  EXPECT_EQ(argmax(logits), 1);
  Sampler greedy;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(greedy.sample(logits), 1);
  EXPECT_EQ(argmax(std::vector<float>{-5, -5}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-INFINITY, -7}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-INFINITY, -INFINITY}), 0);
  EXPECT_EQ(argmax(std::vector<float>{NAN, NAN}), 0) << "an index for every caller";
}

// Sizes around the vectors of an implementation, with the largest logit at each index.
TEST(Sampler, GreedyFindsEachIndex) {
  for (const std::size_t size : {1, 15, 16, 17, 40, 63, 64, 65, 150}) {
    std::vector<float> logits(size, -2);
    for (std::size_t i = 0; i < size; ++i) {
      logits[i] = 1;
      EXPECT_EQ(argmax(logits), static_cast<int>(i));
      logits[i] = NAN;
      EXPECT_THROW(Sampler().sample(logits), Error) << i << " of " << size;
      logits[i] = -2;
    }
  }
}

// 20,000 draws compared with softmax(logits / T): chi-square with 5 degrees of freedom, 99.9% point
// 20.5.
TEST(Sampler, DrawsFromTheSoftmax) {
  const std::vector<float> logits = {0.5f, 2, -1, 1.5f, 0, 1};
  for (double temperature : {0.5, 1.0, 2.0}) {
    constexpr int kDraws = 20'000;
    Sampler sampler(temperature, 42);
    std::vector<int> counts(logits.size(), 0);
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits)];
    double total = 0, chi = 0;
    for (float x : logits) total += std::exp(x / temperature);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double expected = kDraws * std::exp(logits[i] / temperature) / total;
      chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi, 20.5) << temperature;
  }
}

TEST(Sampler, SeedsDetermineTheStream) {
  const std::vector<float> logits(50, 0.0f);
  const auto draws = [&](std::uint64_t seed) {
    Sampler sampler(1, seed);
    std::vector<int> out;
    for (int i = 0; i < 40; ++i) out.push_back(sampler.sample(logits));
    return out;
  };
  EXPECT_EQ(draws(7), draws(7));
  EXPECT_NE(draws(7), draws(8));
}

TEST(Sampler, ImpossibleTokensAreNeverDrawn) {
  const std::vector<float> logits = {-INFINITY, 0, -INFINITY, 0, -INFINITY};
  Sampler sampler(3, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(sampler.sample(logits) % 2, 1);
}

}  // namespace
}  // namespace turnbench
