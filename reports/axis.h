#pragma once

#include <string>
#include <vector>

namespace turnbench {

/// An axis of a chart, with the places of its ticks.
struct Axis {
  struct Tick {
    double at = 0;
    std::string text;
  };
  std::string label;           ///< quantity and unit; may be empty
  double first = 0, last = 1;  ///< values at its two ends
  bool is_log = false;
  std::vector<Tick> ticks;

  /// The place of a value, between 0 (at `first` and below) and 1 (at `last` and above).
  double place(double value) const;
};

/// An axis of shares, from 0 to 100.
Axis share_axis(const std::string& label);

/// An axis around 0 and all `values`, with round ticks at its ends and between them.
Axis linear_axis(const std::string& label, const std::vector<double>& values);

/// A logarithmic axis around `values`, which are positive.  It has ticks at the distinct values,
/// with their texts (as many as `values`), as far as there is room for them.
Axis log_axis(const std::string& label, const std::vector<double>& values,
              const std::vector<std::string>& texts);

/// The same with ticks at 1, 2 and 5 times powers of ten.  A label also names the scale.
Axis log_axis(const std::string& label, const std::vector<double>& values);

/// A logarithmic axis if the largest value is at least four times the smallest, which is positive;
/// else a linear one.  `texts`: as in `log_axis`; empty: ticks at powers of ten.
Axis fitting_axis(const std::string& label, const std::vector<double>& values,
                  const std::vector<std::string>& texts = {});

}  // namespace turnbench
