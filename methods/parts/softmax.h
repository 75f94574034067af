#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace turnbench {

/// The softmax of some logits, of which at least one is finite; empty if there are none.
inline std::vector<double> softmax(std::vector<double> x) {
  if (x.empty()) return x;
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - top);
  for (double& v : x) v /= sum;
  return x;
}

}  // namespace turnbench
