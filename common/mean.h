#pragma once

namespace turnbench {

/// A running mean.  `value` is NaN before the first `add`.
struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return sum / count; }
};

}  // namespace turnbench
