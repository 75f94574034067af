#pragma once

#include <string>
#include <vector>

#include "reports/axis.h"
#include "reports/results.h"

namespace turnbench {

/// The distribution of the scores of single turns, for each method.
struct ScoreDistribution {
  struct Row {
    std::string label;
    std::vector<double> percent;  ///< of the turns in each bin; datasets weigh the same
  };
  Axis axis = share_axis("turns (%)");
  std::vector<std::string> bins;  ///< "0", "above 0 to 50", ...
  std::vector<Row> rows;          ///< methods with scores
};

/// Without rows if the scores are not shares.
ScoreDistribution score_distribution(const Results& results);

}  // namespace turnbench
