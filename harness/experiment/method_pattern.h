#pragma once

#include <filesystem>
#include <string>

#include "harness/store/cell.h"

namespace turnbench {

/// Selects methods by a name with some of their settings: "snapkv" or "snapkv:window=8" selects
/// every snapkv (with this window), whatever its other settings.  A label selects its method.
class MethodPattern {
 public:
  explicit MethodPattern(std::string text) : text_(std::move(text)) {}

  /// Compares `method` and `method_canonical` of a cell.  Values may be written in any form:
  /// "20%", "0.2" and "1/5" are equal.  Files are compared by path.
  bool matches(const Cell& cell) const;

 private:
  std::string text_;
};

}  // namespace turnbench
