#pragma once

#include <vector>

#include "reports/statistics/contributions.h"

namespace turnbench {

/// How the p of many differences account for each other.
enum class Adjustment {
  /// Step-down maxT (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1):
  /// what all differences of the family have in common costs nothing.
  kMaxT,
  /// Holm (Scandinavian Journal of Statistics 6, 1979): M times the least p, M - 1 times the next.
  /// It can reject nothing where M exceeds .05 times the number of flips.
  kHolm
};

/// What is against a difference of 0.
struct PValue {
  double p = 1;         ///< of this difference by itself
  double adjusted = 1;  ///< of the family: some true 0 falls below .05 in 5% of families at most
};

/// Two-sided sign-flip tests of a family of differences on the same flips (see SignFlips), each of
/// the statistic |sum_i d_i| / sqrt(sum_i d_i^2), whose scale no flip changes.  A difference on at
/// most SignFlips::kMaxEnumerated dialogues gets its p from all flips of these.  All members must
/// have means.  Memory: that of the family's dialogues and flips, not of their product.
std::vector<PValue> test_family(const std::vector<const Contributions*>& family,
                                Adjustment adjustment);

/// Holm's adjustment of p values.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace turnbench
