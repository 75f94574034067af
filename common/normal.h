#pragma once

#include "common/random.h"

namespace turnbench {

/// Draws a number from the standard normal distribution.
double normal(Random& random);

}  // namespace turnbench
