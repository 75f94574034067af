#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/statistics/family.h"
#include "reports/statistics/interval.h"
#include "reports/statistics/stratum.h"

namespace turnbench {

/// A mean with its 95% interval, in the unit that tables print: scores x100.
struct Estimate {
  bool known = false;  ///< false: there is no mean, and only the counts are valid
  double mean = 0;
  /// Missing if a dataset has only one dialogue; of width 0 if all values are exact.
  std::optional<Interval> interval;
  int dialogues = 0;  ///< distinct dialogues with scored turns
  int units = 0;      ///< units of these dialogues: fewer if some share texts
  int turns = 0;      ///< scored turns
  int failed = 0;     ///< turns without a score because they failed
};

/// The mean over strata of each stratum's mean over turns: every dataset has the same weight.
/// Unknown if a stratum has no scored turn, because a mean over fewer datasets is a different
/// quantity.  The interval is `share_interval` if all values are shares, else `value_interval`.
Estimate estimate(const std::vector<const Stratum*>& strata);

/// A paired difference: the mean over pairs of a stratum's mean minus its baseline's, on the turns
/// that have scores in both.
struct Difference {
  Estimate estimate;
  PValue against_zero;  ///< sign-flip test: unadjusted, and adjusted within the family
  /// Two one-sided tests with the margin, if there is one and the values are shares.
  std::optional<double> equivalence;
};

/// The mean and the interval of a difference, without tests.
Estimate paired_estimate(const std::vector<StratumPair>& pairs);

/// The tests that `compare` performs.
struct Comparison {
  Adjustment adjustment = Adjustment::kMaxT;
  double margin = 0;  ///< in points; smaller differences count as equivalent; 0: no such test
};

/// The differences of a table: one family, tested on the same flips. nullopt if a pair has no turn
/// in common.
std::vector<std::optional<Difference>> compare(const std::vector<std::vector<StratumPair>>& family,
                                               const Comparison& comparison = {});

/// p-value of the equivalence of a mean and a published number, which counts as exact: two
/// one-sided tests with `margin`.  Number and margin are in the unit that tables print.  nullopt if
/// the values are not shares or their spread is not known.
std::optional<double> equivalence_to(double published, const std::vector<const Stratum*>& strata,
                                     double margin);

/// A number of dialogues, or the reason for its absence: "more than 1000000000", "unknown: ...".
struct NeededDialogues {
  std::optional<int> number;
  std::string otherwise;
};
/// The number of dialogues at which a difference of `points` (of 100) is detected with a
/// probability of 80%, if differences vary as those of `pairs`.  Unknown if these have no interval
/// or are not shares.
NeededDialogues needed_dialogues(const std::vector<StratumPair>& pairs, double points);

}  // namespace turnbench
