#pragma once

#include <optional>
#include <vector>

#include "harness/store/cell.h"
#include "reports/estimate.h"

namespace turnbench {

/// A difference to be tested: the pairs that it is the mean of.
struct TestedDifference {
  std::vector<StratumPair> pairs;
  bool imported = false;  ///< of predictions that were made elsewhere alone
};

/// Whether all of the cells are of imported predictions.
bool all_imported(const std::vector<const Cell*>& cells);

/// Whether some are imported and some are not; then a table says `kTwoFamilies`.
bool has_two_families(const std::vector<TestedDifference>& differences);
constexpr const char* kTwoFamilies =
    "Imported predictions are a family of their own: p is adjusted for their differences alone, "
    "and "
    "for all others without them.";

/// As `compare`, but those of imported predictions are a family of their own: importing them does
/// not change what is said of the others.
std::vector<std::optional<Difference>> compare_families(
    const std::vector<TestedDifference>& differences, const Comparison& comparison);

}  // namespace turnbench
