#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"
#include "reports/averages.h"
#include "reports/comparability.h"
#include "reports/estimate.h"
#include "reports/results.h"
#include "reports/row_counters.h"

namespace turnbench {

/// A table to print: labels of rows and columns, and an estimate for each entry with results.
struct Pivot {
  std::string title;
  std::vector<const TableValue*> values;  ///< the quantities; "score" for every metric
  std::vector<std::string> row_dimensions, column_dimensions;
  /// Values of the dimensions, in the order of the manifest.
  std::vector<std::vector<std::string>> rows, columns;
  struct Entry {
    Estimate estimate;
    const TableValue* unit = nullptr;  ///< of the estimate
    /// The parts without which there is no mean, with the reason: "tiny-fact (failed)".
    std::vector<std::string> missing;
    std::size_t pending = 0;  ///< dialogues of its cells that have not run yet
    /// For each of `baselines`, the difference to it, if there is one.
    std::vector<std::optional<Difference>> differences;
    std::optional<double> published;  ///< the number in the paper
    std::vector<std::string> published_notes;
    std::vector<std::size_t> cells;  ///< of which it is the mean: indices in `Results::cells`
    int turn = -1;                   ///< the turn, if this is a dimension of the table

    bool has_difference() const;
  };
  std::vector<std::vector<std::optional<Entry>>> entries;  ///< [row][column]
  std::vector<std::string> baselines;  ///< names of the rules that differences refer to
  Comparison comparison;               ///< how the differences were tested
  /// For each row, by name of a counter: its mean over the row's entries.  If the row has several
  /// methods or histories, the range of their means.
  std::vector<std::map<std::string, CounterRange>> counters;
  std::vector<std::string> notes;  ///< why entries have no mean, and remarks on published numbers
  std::vector<AveragedDimension> averages;  ///< the dimensions over which its means are taken
  std::vector<ComparabilityRemark> comparability;  ///< differences between the runs of its methods
  /// For each row, the values of `comparability` for its methods.
  std::vector<std::string> row_comparability;

  /// Describes the data in a line under the table: "Dialogues: 24 of each of 4 datasets.  Means
  /// over position (begin, end).  Differences to full."; "" if there are no numbers.
  std::string basis;

  /// Whether all values are shares, which tables print x100.
  bool shows_shares() const;
  // Whether any entry has a published number.
  bool has_published() const;
  bool has_missing() const;
  bool has_pending() const;
  bool has_published_notes() const;
  bool has_differences() const;
  bool has_equivalence() const;
  bool has_counters() const;  ///< false if all rows are probes
  /// The counters that some row has: turns with forced answers decode nothing.
  std::vector<ReportedCounter> shown_counters() const;
  bool shows(const ReportedCounter& counter) const;
  /// A counter of a row: "1378", or "256–512" if it depends on the method; "" if there is no count.
  std::string counter_text(std::size_t row, const std::string& name) const;
};

Pivot make_pivot(const Results& results, const TableSpec& spec, const Comparison& comparison = {});

/// The number of dialogues that the difference of one table entry needs.
struct NeededOfEntry {
  std::vector<std::string> row, column;  ///< values of the table's dimensions
  std::string baseline;                  ///< name of the rule
  double difference = 0;                 ///< in the store, in points
  int dialogues = 0;                     ///< number of dialogues over which it was measured
  NeededDialogues needed;
};
/// For every entry with a difference, the number of dialogues at which a difference of `points` is
/// detected.
std::vector<NeededOfEntry> needed_dialogues(const Results& results, const TableSpec& spec,
                                            double points);

}  // namespace turnbench
