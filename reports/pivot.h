#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"
#include "reports/estimate.h"
#include "reports/results.h"

namespace turnbench {

/// One printed table: a label per row and column, and an estimate where there are results.
struct Pivot {
  std::string title;
  const TableValue* unit = nullptr;  ///< of its estimates: that of scores for every metric
  std::vector<std::string> row_dimensions, column_dimensions;
  /// Values of the dimensions, each in the order in which the manifest lists them.
  std::vector<std::vector<std::string>> rows, columns;
  struct Entry {
    Estimate estimate;
    /// The parts without which there is no mean, with the reason: "tiny-fact (failed)".
    std::vector<std::string> missing;
    std::size_t pending = 0;             ///< dialogues of its cells that have not run yet
    std::optional<Estimate> difference;  ///< to the baseline method
    std::optional<double> published;     ///< what the paper prints for the entry
    std::vector<std::string> published_notes;
  };
  std::vector<std::vector<std::optional<Entry>>> entries;  ///< [row][column]
  std::string baseline;
  /// Of each row, by name: a counter's mean over the row's entries, from the least to the greatest
  /// of the methods and histories that stand in the row.
  struct Range {
    double low = 0, high = 0;
  };
  std::vector<std::map<std::string, Range>> counters;
  std::vector<std::string> notes;  ///< what holes lack, and what papers remark

  bool has_published() const;  ///< for any entry
  bool has_missing() const;
  bool has_pending() const;
  bool has_published_notes() const;
  bool has_counters() const;  ///< probes alone have none
  /// "1378", "256–512" where that depends on the method; "" where nothing was counted.
  std::string counter(std::size_t row, const std::string& name) const;
};

Pivot make_pivot(const Results& results, const TableSpec& spec);

/// Counters that reports show: name, heading, meaning, digits behind the point.
struct ReportedCounter {
  const char *name, *heading, *meaning;
  int digits;
};
const std::vector<ReportedCounter>& reported_counters();

}  // namespace turnbench
