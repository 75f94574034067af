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

// Compilers vectorise these loops: separate maxima of lanes, and blocks without an exit.
constexpr std::size_t kLanes = 16, kBlock = 64;

Extremes extremes(std::span<const float> logits) {
  std::array<float, kLanes> max;
  max.fill(-std::numeric_limits<float>::infinity());
  const auto add = [&](std::size_t lane, float x) { max[lane] = x > max[lane] ? x : max[lane]; };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) add(0, logits[i]);
  int nans = 0;
  for (const float x : logits) nans |= x != x ? 1 : 0;
  return {*std::max_element(max.begin(), max.end()), nans != 0};
}

/// The lowest index of the largest logit; 0 if no logit is a number.
int index_of(std::span<const float> logits, float max) {
  std::size_t i = 0;
  for (; i + kBlock <= logits.size(); i += kBlock) {
    int equal = 0;
    for (std::size_t j = 0; j < kBlock; ++j) equal |= logits[i + j] == max ? 1 : 0;
    if (equal != 0) break;
  }
  const auto from = logits.begin() + static_cast<std::ptrdiff_t>(i);
  const auto found = std::find(from, logits.end(), max);
  return found == logits.end() ? 0 : static_cast<int>(found - logits.begin());
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
  const double top = logits[best];
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
