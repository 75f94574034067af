#include "common/normal.h"

#include <cmath>
#include <numbers>

namespace turnbench {

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace turnbench
