#include "inference/engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "common/error.h"
#include "common/random.h"

namespace turnbench {
namespace {

struct Extremes {
  float max;     ///< of the numbers
  bool has_nan;  ///< a logit is not a number
};

/// Compilers vectorise the separate maxima of lanes, but not one maximum of floats.
Extremes extremes(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> max;
  max.fill(-std::numeric_limits<float>::infinity());
  std::array<int, kLanes> nans{};
  const auto add = [&](std::size_t lane, float x) {
    max[lane] = x > max[lane] ? x : max[lane];
    nans[lane] |= x != x ? 1 : 0;
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) add(0, logits[i]);
  return {*std::max_element(max.begin(), max.end()),
          std::find(nans.begin(), nans.end(), 1) != nans.end()};
}

/// The lowest index of the largest logit.
int index_of(std::span<const float> logits, float max) {
  return static_cast<int>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

}  // namespace

int argmax(std::span<const float> logits) {
  return index_of(logits, extremes(logits).max);
}

int Sampler::sample(std::span<const float> logits) {
  const Extremes found = extremes(logits);
  if (found.has_nan) {
    throw runtime_error("logits: found a value that is not a number, expected numbers");
  }
  const int best = index_of(logits, found.max);
  if (temperature_ == 0) return best;
  const double top = logits[static_cast<std::size_t>(best)];
  std::vector<double> weights;
  double total = 0;
  for (float x : logits) {
    weights.push_back(std::exp((x - top) / temperature_));
    total += weights.back();
  }
  double left = Random::from({seed_, draws_++}).uniform() * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<int>(i);
  }
  return best;
}

}  // namespace turnbench
