#include "reports/pareto_front.h"

#include <algorithm>
#include <cmath>

namespace turnbench {
namespace {

/// Whether x is larger than y by more than the rounding error of a mean.
bool exceeds(double x, double y) {
  constexpr double kRounding = 1e-9;
  return x - y > kRounding * std::max({1.0, std::abs(x), std::abs(y)});
}

}  // namespace

std::vector<bool> pareto_front(const std::vector<QualityAndCost>& methods) {
  std::vector<bool> out;
  for (const QualityAndCost& own : methods) {
    const auto dominates = [&](const QualityAndCost& other) {
      if (!other.cost || exceeds(own.quality, other.quality) || exceeds(*other.cost, *own.cost))
        return false;
      return exceeds(other.quality, own.quality) || exceeds(*own.cost, *other.cost);
    };
    out.push_back(own.cost && std::none_of(methods.begin(), methods.end(), dominates));
  }
  return out;
}

}  // namespace turnbench
