#pragma once

#include <vector>

#include "common/random.h"

namespace turnbench {

/// 0 if there are none.
double median(std::vector<double> x);

/// A number of the standard normal distribution.
double normal(Random& random);

}  // namespace turnbench
