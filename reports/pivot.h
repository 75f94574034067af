#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"
#include "reports/averages.h"
#include "reports/comparability.h"
#include "reports/estimate.h"
#include "reports/method_labels.h"
#include "reports/results.h"
#include "reports/row_counters.h"

namespace turnbench {

/// Whether an entry is the best or the second best of its column (see `add_marks`).
enum class Mark { kNone, kBest, kSecond };

/// A table to print: labels of rows and columns, and an estimate for each entry with results.
struct Pivot {
  std::string title;
  std::vector<std::string> value_names;   ///< as in the manifest
  std::vector<const TableValue*> values;  ///< the quantities; "score" for every metric
  std::vector<std::string> row_dimensions, column_dimensions;
  /// Values of the dimensions, in the order of the manifest.
  std::vector<std::vector<std::string>> rows, columns;
  MethodLabels method_labels;  ///< short labels of the methods in rows or columns
  struct Entry {
    Estimate estimate;
    const TableValue* unit = nullptr;  ///< of the estimate
    /// The parts without which there is no mean, with the reason: "tiny-fact (failed)".
    std::vector<std::string> missing;
    std::size_t pending = 0;  ///< dialogues of its cells that have not run yet
    /// For each of `baselines`, the difference to it, if there is one.
    std::vector<std::optional<Difference>> differences;
    std::optional<double> published;  ///< the number in the paper
    /// With a margin: p of the test that the mean equals it within the margin.
    std::optional<double> published_equivalence;
    std::vector<std::string> published_notes;
    std::vector<std::size_t> cells;  ///< of which it is the mean: indices in `Results::cells`
    int turn = -1;                   ///< the turn, if this is a dimension of the table
    Mark mark = Mark::kNone;

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

  /// Describes the data: "Dialogues: 24 of each of 4 datasets.  Means over position (begin, end)."
  std::string basis;
  /// The line under the table that describes the data, and the baselines if the table shows the
  /// differences to them: "... Differences to full."; "" if there are no numbers.
  std::string basis_note(bool shows_differences) const;

  /// The label of a row in one of its dimensions, and the head of a column at one of its levels;
  /// methods have their short labels.
  std::string row_label(std::size_t row, std::size_t dimension) const;
  std::string column_head(std::size_t column, std::size_t level) const;
  /// The heads of all levels: "begin / turn 2".
  std::string column_head(std::size_t column) const;
  /// The number of rows, from `row` on, that have the same labels in all dimensions up to this one;
  /// 0 if the row before has them too.  Always 1 in the last dimension.
  std::size_t row_span(std::size_t row, std::size_t dimension) const;
  /// The labels of a row; those that the row above has too are empty.
  std::vector<std::string> merged_labels(std::size_t row) const;
  /// Names the settings that labels leave out; "" if they leave out none.
  std::string label_note() const;

  /// Whether all values are shares, which tables print x100.
  bool shows_shares() const;
  // Whether any entry has a published number.
  bool has_published() const;
  bool has_missing() const;
  bool has_pending() const;
  bool has_shared_texts() const;  ///< dialogues of an entry are fewer units
  bool has_published_notes() const;
  bool has_marks() const;
  bool has_intervals() const;
  bool has_differences() const;
  bool has_equivalence() const;
  bool has_published_equivalence() const;
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
