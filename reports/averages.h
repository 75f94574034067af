#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// A dimension over which means are taken, and its averaged values in table order.
struct AveragedDimension {
  std::string name;
  std::vector<std::string> values;
};

/// Collects the dimensions over which the entries of a table average.
class Averages {
 public:
  explicit Averages(const Results& results) : results_(results) {}

  /// Adds an entry: the mean of a value over these cells.  `all_turns`: the mean is also over all
  /// their turns.
  void add(const std::vector<const Cell*>& cells, const std::string& value, bool all_turns);
  std::vector<AveragedDimension> dimensions() const;

 private:
  const Results& results_;
  std::map<std::string, std::set<std::string>> values_;  ///< by dimension
  std::set<int> turns_;
};

/// "Means over model (a, b), turn (1, 2, 3)."; empty if there are no dimensions.
std::string describe(const std::vector<AveragedDimension>& dimensions);

}  // namespace turnbench
