// Rotary frequencies and tables, compared with their formulas in double precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "common/json.h"
#include "inference/model/model_config.h"
#include "inference/model/rope.h"

namespace turnbench {
namespace {

constexpr int kRotatedDim = 64;

double plain(double theta, int pair) {
  return std::pow(theta, -2.0 * pair / kRotatedDim);
}

void expect_frequencies(const RopeConfig& rope, const std::function<double(int)>& want) {
  const std::vector<float> got = rope_frequencies(rope, kRotatedDim);
  ASSERT_EQ(got.size(), static_cast<std::size_t>(kRotatedDim / 2));
  for (int i = 0; i < kRotatedDim / 2; ++i) EXPECT_NEAR(got[i] / want(i), 1, 2e-6) << i;
}

TEST(Rope, PlainAndLinear) {
  RopeConfig rope;
  rope.theta = 500'000;
  expect_frequencies(rope, [](int i) { return plain(500'000, i); });
  rope.scaling = RopeConfig::Scaling::kLinear;
  rope.factor = 4;
  expect_frequencies(rope, [](int i) { return plain(500'000, i) / 4; });
}

// Llama 3.1: long wavelengths are scaled, short ones are not, with a linear transition between
// them.
TEST(Rope, Llama3) {
  RopeConfig rope;
  rope.theta = 500'000;
  rope.scaling = RopeConfig::Scaling::kLlama3;
  rope.factor = 8;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_positions = 8192;
  int slowed = 0, blended = 0, kept = 0;
  expect_frequencies(rope, [&](int i) {
    const double f = plain(500'000, i), wave = 2 * std::numbers::pi / f;
    if (wave < 8192.0 / 4) return ++kept, f;
    if (wave > 8192.0) return ++slowed, f / 8;
    const double smooth = (8192 / wave - 1) / (4 - 1);
    return ++blended, (1 - smooth) * f / 8 + smooth * f;
  });
  EXPECT_GT(std::min({slowed, blended, kept}), 0) << "all three ranges are tested";
}

// YaRN (Peng et al., 2023): a ramp between the pairs that turn beta_fast and beta_slow times.
TEST(Rope, Yarn) {
  RopeConfig rope;
  rope.theta = 1'000'000;
  rope.scaling = RopeConfig::Scaling::kYarn;
  rope.factor = 4;
  rope.original_max_positions = 32768;
  const auto pair_of = [](double turns) {
    return kRotatedDim * std::log(32768 / (turns * 2 * std::numbers::pi)) / (2 * std::log(1e6));
  };
  const double low = std::max(0.0, std::floor(pair_of(32))),
               high = std::min(kRotatedDim - 1.0, std::ceil(pair_of(1)));
  int between = 0;
  expect_frequencies(rope, [&](int i) {
    const double f = plain(1e6, i), ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    between += ramp > 0 && ramp < 1;
    return f / 4 * ramp + f * (1 - ramp);
  });
  EXPECT_GT(between, 3);
}

TEST(Rope, YarnAttentionFactor) {
  const auto config = [](const std::string& extra) {
    const std::string text = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 32,
      "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 1024,
      "rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 128)" +
                             extra + "}}";
    const Json json = parse_json(text, "config");
    return parse_model_config(JsonView(json, "config"));
  };
  EXPECT_NEAR(config("").rope.attention_factor, 0.1 * std::log(8.0) + 1, 1e-12);
  EXPECT_EQ(config(R"(, "attention_factor": 1.5)").rope.attention_factor, 1.5);
}

TEST(Rope, LongestPromptIsScaled) {
  ModelConfig config;
  EXPECT_EQ(config.longest_prompt(), 0) << "unknown";
  config.max_positions = 32768;
  EXPECT_EQ(config.longest_prompt(), 32768);
  config.rope.original_max_positions = 32768;
  config.rope.factor = 4;
  EXPECT_EQ(config.longest_prompt(), 131072) << "max_position_embeddings before it is scaled";
  config.max_positions = 262144;
  EXPECT_EQ(config.longest_prompt(), 262144);
}

// Tables up to position one million: the angle is the float product of the references.
TEST(Rope, Tables) {
  RopeConfig rope;
  rope.theta = 10'000;
  const std::vector<float> frequencies = rope_frequencies(rope, kRotatedDim);
  const std::vector<std::int32_t> positions = {0, 1, 2, 1000, 999'999};
  const std::size_t half = frequencies.size();
  std::vector<float> cos(positions.size() * half), sin = cos;
  rope_tables(frequencies, 1.25, positions, cos.data(), sin.data());
  for (std::size_t p = 0; p < positions.size(); ++p) {
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[p]) * frequencies[i];
      EXPECT_NEAR(cos[p * half + i], 1.25 * std::cos(static_cast<double>(angle)), 1e-6);
      EXPECT_NEAR(sin[p * half + i], 1.25 * std::sin(static_cast<double>(angle)), 1e-6);
    }
  }
  EXPECT_EQ(cos[0], 1.25f);
  EXPECT_EQ(sin[0], 0.0f);
}

// Rotated from their positions to one position: equal to a rotation to that position.
TEST(Rope, RotatesToOnePosition) {
  RopeConfig rope;
  rope.theta = 10'000;
  const std::vector<float> frequencies = rope_frequencies(rope, kRotatedDim);
  const std::vector<std::int32_t> positions = {0, 1, 77, 100'000};
  const std::size_t half = frequencies.size(), count = positions.size() * half;
  for (const double factor : {1.0, 1.25}) {
    std::vector<float> cos(count), sin(count), turn_cos(count), turn_sin(count), want_cos(half),
        want_sin(half);
    rope_tables(frequencies, 1, positions, cos.data(), sin.data());
    rerotation_tables(frequencies, factor, positions, 300, turn_cos.data(), turn_sin.data());
    const std::vector<std::int32_t> to = {300};
    rope_tables(frequencies, factor, to, want_cos.data(), want_sin.data());
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(cos[i] * turn_cos[i] - sin[i] * turn_sin[i], want_cos[i % half], 4e-7) << i;
      EXPECT_NEAR(sin[i] * turn_cos[i] + cos[i] * turn_sin[i], want_sin[i % half], 4e-7) << i;
    }
  }
}

}  // namespace
}  // namespace turnbench
