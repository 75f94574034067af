#include "methods/parts/placement_thresholds.h"

#include <algorithm>
#include <cmath>

namespace turnbench {

std::vector<std::int64_t> placement_thresholds(const PlacementMemory& m) {
  using Formula = PlacementMemory::Formula;
  // Elements of a key and a value of all heads and requests.
  const double elements = static_cast<double>(m.requests) * m.kv_heads * m.head_dim,
               token = 2.0 * m.element * elements;
  const double beside = m.formula == Formula::kExact ? 0.5 + 0.5 * m.group : 1.0 + m.group;
  std::vector<std::int64_t> out;
  for (int i = 0; i <= m.layers; ++i) {
    const double of_budget =
        static_cast<double>(i) * m.budget * (m.formula == Formula::kPrinted ? elements : token);
    const double fit = std::floor((m.bytes - of_budget) / (token * (m.layers + beside - i)));
    out.push_back(static_cast<std::int64_t>(std::clamp(fit, 0.0, 1e15)));
  }
  return out;
}

int layers_on_host(const std::vector<std::int64_t>& thresholds, std::int64_t length) {
  const auto layers = static_cast<int>(thresholds.size()) - 1;
  int out = 0;
  while (out < layers && length >= thresholds[out]) ++out;
  return out;
}

}  // namespace turnbench
