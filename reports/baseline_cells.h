#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// The cells of the method that others are compared with.  `results` must outlive it.
class BaselineCells {
 public:
  BaselineCells(const Results& results, const std::string& method);
  /// The one of the same model, dataset, position, history and answers; null if there is none.
  const Cell* of(const Cell& cell) const;

 private:
  std::map<std::vector<std::string>, const Cell*> cells_;
};

}  // namespace turnbench
