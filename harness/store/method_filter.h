#pragma once

#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// The cells that a word of the command line means: those of a label of the tables, of a method or
/// probe with all its settings, or, of a name alone, those of every setting of it.
class MethodFilter {
 public:
  explicit MethodFilter(std::string spec);
  bool matches(const Cell& cell) const;
  const std::string& text() const { return spec_; }

 private:
  std::string spec_;
  std::string method_, probe_;  ///< canonical; empty if it is none
};

}  // namespace turnbench
