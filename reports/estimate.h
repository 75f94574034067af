#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace turnbench {

/// A mean x100 with its 95% interval.
struct Estimate {
  double mean = 0, low = 0, high = 0;
  int turns = 0;   ///< scored turns
  int failed = 0;  ///< turns that have no score because their cell failed
  double half_width() const { return (high - low) / 2; }
};

/// The scores of one cell: per dialogue, the sum over its turns and their number.  Dialogues of one
/// `population` (a dataset) are resampled together, so that cells on the same dialogues stay
/// paired.
struct Stratum {
  struct Sum {
    double score = 0;
    int turns = 0;
  };
  std::string population;
  bool is_score = true;  ///< between 0 and 1
  std::map<std::string, Sum> dialogues;
  int failed = 0;
  int without_value = 0;  ///< turns on which a probe had nothing to measure
};

/// The mean over strata of each stratum's mean over turns, so that every dataset weighs the same.
/// The interval is a percentile bootstrap over dialogues (turns of one dialogue are not
/// independent) with 2,000 resamples and a fixed seed.  Where all scores are 0 or all are 1 the
/// resamples do not vary; there the exact binomial bound on the number of dialogues is given
/// instead.
Estimate estimate(const std::vector<const Stratum*>& strata);

/// The same for the mean over pairs of a stratum's mean minus its baseline's, on the dialogues that
/// both have scores for; no turns if there are none.
struct StratumPair {
  const Stratum *stratum, *baseline;
};
Estimate estimate_difference(const std::vector<StratumPair>& pairs);

}  // namespace turnbench
