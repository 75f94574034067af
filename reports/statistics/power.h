#pragma once

#include <optional>

#include "reports/statistics/interval.h"

namespace turnbench {

/// The number of dialogues that a two-sided test at 5% needs to detect a true difference of
/// `points` (in stored units, shares of 1) with probability `power`: the smallest N with (t_{.975}
/// + t_{power}) se <= points, where se is that of the interval from N dialogues: variance and
/// pseudo_pair of `spread` times n / N and (n / N)^2.  The degrees of freedom are those of N
/// dialogues, distributed over the datasets in proportion to `spread`.  nullopt if N exceeds
/// kMostDialogues.
constexpr int kMostDialogues = 1'000'000'000;
std::optional<int> dialogues_needed(const Spread& spread, double points, double power = .8);

}  // namespace turnbench
