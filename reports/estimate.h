#pragma once

#include <map>
#include <string>
#include <vector>

namespace turnbench {

/// A mean with its 95% interval, in the unit that tables print: scores x100.
struct Estimate {
  bool known = false;  ///< false: there is no mean, and only the counts are valid
  double mean = 0, low = 0, high = 0;
  int dialogues = 0;  ///< distinct dialogues with scored turns
  int turns = 0;      ///< scored turns
  int failed = 0;     ///< turns without a score because they failed
  double half_width() const { return (high - low) / 2; }
};

/// The scores of one cell.  The bootstrap resamples the dialogues of a `population` (a dataset)
/// together, so that cells on the same dialogues stay paired.
struct Stratum {
  using Turns = std::map<int, double>;  ///< turn, from 0 -> its score
  std::string population;
  bool is_score = true;  ///< between 0 and 1
  double scale = 100;    ///< printed value / stored value
  std::map<std::string, Turns> dialogues;
  int failed = 0;
  int without_value = 0;  ///< turns where a probe had nothing to measure
};

/// The mean over strata of each stratum's mean over turns: every dataset has the same weight.
/// Unknown if a stratum has no scored turn, because a mean over fewer datasets is another quantity.
/// The interval is a percentile bootstrap over dialogues (turns of one dialogue are not
/// independent) with 2,000 resamples and a fixed seed.  If all scores are 0, or all are 1, the
/// resamples do not vary; then the interval ends at the bound of the exact binomial confidence
/// region: the extreme mean of the datasets' means at which all their dialogues can still come out
/// so.
Estimate estimate(const std::vector<const Stratum*>& strata);

/// The same for paired differences: the mean over pairs of a stratum's mean minus its baseline's,
/// on the turns that have scores in both.  Unknown if a pair has no such turn.
struct StratumPair {
  const Stratum *stratum, *baseline;
};
Estimate estimate_difference(const std::vector<StratumPair>& pairs);

}  // namespace turnbench
