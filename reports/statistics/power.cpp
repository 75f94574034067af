#include "reports/statistics/power.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/statistics/student_t.h"

namespace turnbench {

int dialogues_needed(const Spread& spread, double points, double power) {
  const double n = spread.dialogues, error = difference_error(spread);
  const auto suffices = [&](int candidate) {
    const double freedom = std::max(1.0, spread.freedom * candidate / n),
                 t = student_t_quantile(.975, freedom) + student_t_quantile(power, freedom);
    return t * t * n * error * error <= points * points * candidate;
  };
  int low = 1, high = 2;  // low does not suffice
  while (!suffices(high)) {
    if (high > std::numeric_limits<int>::max() / 2) return std::numeric_limits<int>::max();
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace turnbench
