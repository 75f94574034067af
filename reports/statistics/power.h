#pragma once

#include <optional>

#include "reports/statistics/interval.h"

namespace turnbench {

/// How many dialogues a test at 5%, two-sided, needs in order to find a true difference of `points`
/// (in stored units, shares of 1) with the probability `power`: the least N with
/// (t_{.975} + t_{power})^2 n se^2 / points^2 <= N, of the n dialogues that `spread` is of and
/// their se (that of the interval: dialogues that happened not to differ promise nothing), with the
/// degrees of freedom of N dialogues.  They stand in the datasets as the n do.  Nothing where it is
/// more than kMostDialogues.
constexpr int kMostDialogues = 1'000'000'000;
std::optional<int> dialogues_needed(const Spread& spread, double points, double power = .8);

}  // namespace turnbench
