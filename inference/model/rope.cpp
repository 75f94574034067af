#include "inference/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace turnbench {

std::vector<float> rope_frequencies(const RopeConfig& rope, int head_dim) {
  const int half = head_dim / 2;
  std::vector<float> out(static_cast<std::size_t>(half));
  const double original = static_cast<double>(rope.original_max_positions);
  // YaRN: the pair whose angle makes `turns` full rotations over the original context.
  const auto pair_of = [&](double turns) {
    return head_dim * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  for (int i = 0; i < half; ++i) {
    const float plain = 1.0f / static_cast<float>(std::pow(
                                   static_cast<float>(rope.theta),
                                   2.0f * static_cast<float>(i) / static_cast<float>(head_dim)));
    double f = plain;
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
        break;
      case RopeConfig::Scaling::kLinear:
        f = plain / rope.factor;
        break;
      case RopeConfig::Scaling::kLlama3: {
        const double turns = original * plain / (2 * std::numbers::pi);
        const double keep = std::clamp(
            (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0,
            1.0);
        f = (1 - keep) * plain / rope.factor + keep * plain;
        break;
      }
      case RopeConfig::Scaling::kYarn: {
        const double low = std::max(std::floor(pair_of(rope.beta_fast)), 0.0);
        double high = std::min(std::ceil(pair_of(rope.beta_slow)), head_dim - 1.0);
        if (low == high) high += 0.001;
        const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
        f = plain / rope.factor * ramp + plain * (1 - ramp);
        break;
      }
    }
    out[i] = static_cast<float>(f);
  }
  return out;
}

void rope_tables(std::span<const float> frequencies, double attention_factor,
                 std::span<const std::int32_t> positions, float* cos, float* sin) {
  for (std::int32_t position : positions) {
    for (float f : frequencies) {
      // The angle is a float product, as in the reference implementations.
      const double angle = static_cast<float>(position) * f;
      *cos++ = static_cast<float>(std::cos(angle) * attention_factor);
      *sin++ = static_cast<float>(std::sin(angle) * attention_factor);
    }
  }
}

void rerotation_tables(std::span<const float> frequencies, double attention_factor,
                       std::span<const std::int32_t> positions, std::int32_t to, float* cos,
                       float* sin) {
  for (std::int32_t position : positions) {
    for (float f : frequencies) {  // the difference of the angles of rope_tables
      const double angle = static_cast<double>(static_cast<float>(to) * f) -
                           static_cast<double>(static_cast<float>(position) * f);
      *cos++ = static_cast<float>(std::cos(angle) * attention_factor);
      *sin++ = static_cast<float>(std::sin(angle) * attention_factor);
    }
  }
}

}  // namespace turnbench
