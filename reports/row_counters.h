#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/results.h"
#include "reports/table_layout.h"

namespace turnbench {

/// A counter that reports show.
struct ReportedCounter {
  const char *name, *heading, *meaning;
  int digits;  ///< after the decimal point
};
const std::vector<ReportedCounter>& reported_counters();

/// The smallest and the largest mean over the methods and histories of a row.
struct CounterRange {
  double low = 0, high = 0;
};

/// By name of a counter: its mean over the cells of a row.
std::map<std::string, CounterRange> row_counters(const Results& results,
                                                 const std::vector<const TableParts*>& row);

/// "1378", or "256–512".
std::string counter_text(const ReportedCounter& counter, const CounterRange& range);

}  // namespace turnbench
