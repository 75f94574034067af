#pragma once

#include <vector>

#include "reports/estimate.h"

namespace turnbench {

/// The ranks, from 1, that a method can have.
struct RankRange {
  std::size_t best = 1, worst = 1;
  bool operator==(const RankRange&) const = default;
};

/// The ranks that paired differences support, with confidence of 95% for all methods together
/// (Mogstad, Romano, Shaikh and Wilhelm, Review of Economic Studies 91, 2024): all pairs of methods
/// are tested as one family.  The best rank is 1 plus the number of methods that are better with an
/// adjusted p of at most 0.05; the worst rank is the number of methods minus the number of those
/// that are worse.
///
/// strata_of: the strata of each method, one for each dataset, in the same order for all methods.
std::vector<RankRange> rank_ranges(const std::vector<std::vector<Stratum>>& strata_of,
                                   bool lower_is_better, const Comparison& comparison = {});

}  // namespace turnbench
