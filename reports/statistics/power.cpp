#include "reports/statistics/power.h"

#include <algorithm>
#include <cmath>

#include "reports/statistics/student_t.h"

namespace turnbench {

std::optional<int> dialogues_needed(const Spread& spread, double points, double power) {
  const double n = spread.dialogues;
  const auto suffices = [&](int candidate) {
    const double freedom = std::max(1.0, spread.freedom * candidate / n),
                 t = student_t_quantile(.975, freedom) + student_t_quantile(power, freedom);
    Spread planned = spread;
    planned.freedom = freedom;
    planned.variance *= n / candidate;
    planned.pseudo_pair *= n / candidate * n / candidate;
    return t * difference_error(planned) <= points;
  };
  int low = 1, high = 2;  // low is too small
  while (!suffices(high)) {
    if (high == kMostDialogues) return std::nullopt;
    low = high;
    high = std::min(2 * high, kMostDialogues);
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace turnbench
