#pragma once

#include <chrono>

#include "runners/runner.h"

namespace turnbench {

/// One line on a terminal's stderr: units done, tokens/s, time left.  Nothing where stderr is no
/// terminal or `quiet`.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  void show(const Progress& progress);

 private:
  bool visible_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace turnbench
