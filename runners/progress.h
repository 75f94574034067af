#pragma once

#include <chrono>
#include <string>

#include "runners/runner.h"

namespace turnbench {

/// "42 s", "4:40 min", "3:05 h".
std::string duration(double seconds);

/// "12 of 96 units, 42 s left, 310 tokens/s, 2 records failed".
std::string progress_text(const Progress& progress);

/// A progress line on stderr, as `progress_text`.  Prints nothing if stderr is not a
/// terminal, or if `quiet`.
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
