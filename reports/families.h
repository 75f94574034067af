#pragma once

#include <optional>
#include <vector>

#include "harness/store/cell.h"
#include "reports/estimate.h"

namespace turnbench {

/// A difference to test: the pairs over which it is the mean.
struct TestedDifference {
  std::vector<StratumPair> pairs;
  bool imported = false;  ///< all its predictions were imported
};

/// True if all cells are of imported predictions.
bool all_imported(const std::vector<const Cell*>& cells);

/// True if some are imported and some are not; the table then shows `kTwoFamilies`.
bool has_two_families(const std::vector<TestedDifference>& differences);
constexpr const char* kTwoFamilies =
    "Imported predictions are a family of their own: p is adjusted for their differences alone, "
    "and "
    "for all others without them.";

/// As `compare`, but differences of imported predictions form a family of their own, so that an
/// import does not change the other p-values.
std::vector<std::optional<Difference>> compare_families(
    const std::vector<TestedDifference>& differences, const Comparison& comparison);

}  // namespace turnbench
