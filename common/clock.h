#pragma once

#include <chrono>

namespace turnbench {

/// Never goes back, whatever the wall clock is set to.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace turnbench
