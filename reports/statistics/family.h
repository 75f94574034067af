#pragma once

#include <vector>

#include "reports/statistics/contributions.h"

namespace turnbench {

/// Adjustment of the p-values of several differences for multiple testing.
enum class Adjustment {
  /// Step-down maxT (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1),
  /// which accounts for the correlation between the differences of a family.
  kMaxT,
  /// Holm (Scandinavian Journal of Statistics 6, 1979): M times the smallest p, M - 1 times the
  /// next, and so on.  It can reject nothing if M exceeds .05 times the number of flips.
  kHolm
};

/// Evidence against a difference of 0.
struct PValue {
  double p = 1;         ///< unadjusted
  double adjusted = 1;  ///< within the family: controls the family-wise error rate (5% at .05)
};

/// Two-sided sign-flip tests of a family of differences on the same flips (see SignFlips).  The
/// statistic is |sum_i d_i| / sqrt(sum_i d_i^2), whose denominator is invariant under flips.  For a
/// difference on at most SignFlips::kMaxEnumerated units, all flips of these are enumerated.
/// All members must have means.  Memory grows with the number of units plus the number of
/// flips, not with their product.
std::vector<PValue> test_family(const std::vector<const Contributions*>& family,
                                Adjustment adjustment);

/// Holm's adjustment of p values.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace turnbench
