#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// The cells of the baseline method.  `results` must outlive it.
class BaselineCells {
 public:
  BaselineCells(const Results& results, const std::string& method);
  /// The baseline cell with the same model, dataset, position, history and answers; null if there
  /// is none.
  const Cell* of(const Cell& cell) const;

 private:
  std::map<std::vector<std::string>, const Cell*> cells_;
};

}  // namespace turnbench
