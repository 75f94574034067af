#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "common/random.h"

namespace turnbench {

/// Draws `count` distinct numbers below `n`, uniformly; returns them in ascending order.
inline std::vector<std::size_t> sample_without_replacement(std::size_t n, std::size_t count,
                                                           Random& random) {
  std::vector<std::size_t> out(n);
  std::iota(out.begin(), out.end(), std::size_t{0});
  random.shuffle(out);
  out.resize(count);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace turnbench
