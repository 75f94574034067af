#pragma once

#include <cstdint>
#include <span>

namespace turnbench {

/// The index of the largest logit; on ties the lowest.
int argmax(std::span<const float> logits);

/// Samples tokens greedily or at a temperature.  Its random stream is private: the i-th draw
/// depends only on the seed and i.
class Sampler {
 public:
  /// temperature: 0 is greedy.
  explicit Sampler(double temperature = 0, std::uint64_t seed = 0)
      : temperature_(temperature), seed_(seed) {}

  /// Samples a token.  logits: [vocab].
  /// @throws Error (runtime) if a logit is not a number.
  int sample(std::span<const float> logits);

 private:
  double temperature_;
  std::uint64_t seed_, draws_ = 0;
};

}  // namespace turnbench
