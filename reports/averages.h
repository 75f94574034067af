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
  /// `value`: the table's value.
  Averages(const Results& results, std::string value)
      : results_(results), value_(std::move(value)) {}

  /// Adds an entry: the mean over these cells.  `all_turns`: the mean is also over all their turns.
  void add(const std::vector<const Cell*>& cells, bool all_turns);
  std::vector<AveragedDimension> dimensions() const;

 private:
  const Results& results_;
  std::string value_;
  std::map<std::string, std::set<std::string>> values_;  ///< by dimension
  std::set<int> turns_;
};

/// "Means over model (a, b), turn (1, 2, 3)."; empty if there are no dimensions.
std::string describe(const std::vector<AveragedDimension>& dimensions);

}  // namespace turnbench
