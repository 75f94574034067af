#pragma once

#include <cstdint>
#include <span>

namespace turnbench {

/// Index of the largest logit, the lowest one on ties.
int argmax(std::span<const float> logits);

/// Greedy, or at a temperature with a stream of its own: draw i of a seed is the same on every
/// machine, whatever else runs.
class Sampler {
 public:
  /// `temperature` 0 is greedy.
  explicit Sampler(double temperature = 0, std::uint64_t seed = 0)
      : temperature_(temperature), seed_(seed) {}

  /// Refuses logits that are not numbers: a broken model or kernel, not an answer.
  int sample(std::span<const float> logits);

 private:
  double temperature_;
  std::uint64_t seed_, draws_ = 0;
};

}  // namespace turnbench
