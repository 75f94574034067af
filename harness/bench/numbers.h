#pragma once

#include <vector>

#include "common/random.h"

namespace turnbench {

/// The median; 0 for an empty vector.
double median(std::vector<double> x);

/// Draws a number from the standard normal distribution.
double normal(Random& random);

}  // namespace turnbench
