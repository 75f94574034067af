#pragma once

#include <map>
#include <string>
#include <vector>

namespace turnbench {

/// A mean with its 95% interval, in the unit that tables print: scores x100.
struct Estimate {
  bool known = false;  ///< false: there is no mean, and only the counts say anything
  double mean = 0, low = 0, high = 0;
  int dialogues = 0;  ///< different ones with scored turns
  int turns = 0;      ///< scored turns
  int failed = 0;     ///< turns that have no score because their cell failed
  double half_width() const { return (high - low) / 2; }
};

/// The scores of one cell.  Dialogues of one `population` (a dataset) are resampled together, so
/// that cells on the same dialogues stay paired.
struct Stratum {
  using Turns = std::map<int, double>;  ///< turn, from 0 -> its score
  std::string population;
  bool is_score = true;  ///< between 0 and 1
  double scale = 100;    ///< from what is stored to what is printed
  std::map<std::string, Turns> dialogues;
  int failed = 0;
  int without_value = 0;  ///< turns on which a probe had nothing to measure
};

/// The mean over strata of each stratum's mean over turns, so that every dataset weighs the same;
/// unknown if a stratum has no scored turn, for a mean over some of the datasets is another number.
/// The interval is a percentile bootstrap over dialogues (turns of one dialogue are not
/// independent) with 2,000 resamples and a fixed seed.  Where all scores are 0 or all are 1 the
/// resamples do not vary; there the end is given of the exact binomial confidence region: the
/// furthest that the mean of the datasets' means may be when each of their dialogues came out so.
Estimate estimate(const std::vector<const Stratum*>& strata);

/// The same for the mean over pairs of a stratum's mean minus its baseline's, on the turns that
/// both have scores for; unknown if a pair has none.
struct StratumPair {
  const Stratum *stratum, *baseline;
};
Estimate estimate_difference(const std::vector<StratumPair>& pairs);

}  // namespace turnbench
