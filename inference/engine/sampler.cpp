#include "inference/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/error.h"
#include "common/random.h"

namespace turnbench {

int argmax(std::span<const float> logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

int Sampler::sample(std::span<const float> logits) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
    throw runtime_error("logits: found a value that is not a number, expected numbers");
  }
  const int best = argmax(logits);
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
