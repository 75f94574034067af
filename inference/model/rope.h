#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// Rotary position embedding (RoPE; Su et al., RoFormer, 2021): the angle of pair i of a head is
/// position * frequency[i], in radians.  Cosines and sines are multiplied by `attention_factor`.
struct RopeConfig {
  /// kLinear: position interpolation (Chen et al., 2023).  kLlama3: the scaling of Llama 3.1.
  /// kYarn: YaRN (Peng et al., 2023).
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 10000;
  Scaling scaling = Scaling::kNone;
  double factor = 1;                                 ///< context length / original context length
  double low_freq_factor = 1, high_freq_factor = 4;  ///< kLlama3
  double beta_fast = 32, beta_slow = 1;              ///< kYarn
  double attention_factor = 1;
  std::int64_t original_max_positions = 0;
};

/// Frequencies [head_dim / 2] after scaling, in radians per position.  They are rounded to float32
/// at the same places as in the reference implementations (transformers).
std::vector<float> rope_frequencies(const RopeConfig& rope, int head_dim);

/// Writes cosines and sines of all angles, multiplied by `attention_factor`.  frequencies:
/// [head_dim / 2]; cos, sin: [positions, head_dim / 2].
void rope_tables(std::span<const float> frequencies, double attention_factor,
                 std::span<const std::int32_t> positions, float* cos, float* sin);

/// The same for rotations that move vectors already rotated to `positions` to position `to`.
void rerotation_tables(std::span<const float> frequencies, double attention_factor,
                       std::span<const std::int32_t> positions, std::int32_t to, float* cos,
                       float* sin);

}  // namespace turnbench
