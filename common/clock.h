#pragma once

#include <chrono>

namespace turnbench {

/// A monotonic clock, which is not affected by changes of the wall clock.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace turnbench
