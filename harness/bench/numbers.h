#pragma once

#include <vector>

namespace turnbench {

/// The median; 0 for an empty vector.
double median(std::vector<double> x);

}  // namespace turnbench
