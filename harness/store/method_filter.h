#pragma once

#include <set>
#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// Selects cells by --method: a label in tables, a method or probe with its settings, or a name
/// alone, which matches all settings.  The names of a composition may be in any order.
class MethodFilter {
 public:
  explicit MethodFilter(std::string spec);
  bool matches(const Cell& cell) const;
  const std::string& text() const { return spec_; }

 private:
  std::string spec_;
  std::string names_;           ///< of a composition, sorted; empty if `spec_` has settings
  std::string method_, probe_;  ///< canonical texts; empty if `spec_` is not a valid one
};

/// The expected methods in the error message for a method that matches no cell: the labels of the
/// same method if there are any, because tables shorten labels, else as `nearest_or_all`.
std::string nearest_methods(const std::string& spec, const std::set<std::string>& labels);

}  // namespace turnbench
