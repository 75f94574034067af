#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/manifest.h"
#include "harness/published.h"
#include "harness/store.h"
#include "reports/estimate.h"

namespace turnbench {

/// How tables call scores that are not their cells' own; empty for those.
std::string name_of(const ScoreChoice& choice);

/// Everything that a report needs of one experiment, read from the store alone.
class Results {
 public:
  /// The score of a table is that of `choice`.  Refuses one by which nothing was scored, and one
  /// that leaves open which postprocess (for judgements: which judge) is meant.
  Results(const Store& store, const std::string& experiment, const ScoreChoice& choice = {});

  const Manifest& manifest() const { return manifest_; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<Store::Failure>& failures() const { return failures_; }
  /// What the scores are, where they are not the cells' own.
  const ScoreChoice& choice() const { return choice_; }
  /// Dialogues, counted in each cell, that have not run yet.
  std::size_t pending() const { return pending_; }
  const std::vector<std::string>& environments() const { return environments_; }
  /// What the prompts of a cell lost to their limit, and those of all cells.
  Truncation truncation(const std::string& cell) const;
  Truncation truncation() const;

  /// Value of a dimension of a cell, "-" for a setting that its method does not have.  `turn`
  /// counts from 0, or is negative where it is not a dimension.
  std::string dimension(const Cell& cell, int turn, const std::string& name) const;
  /// A table's value in one cell, in hundredths of its unit; `turn` < 0 means all turns.
  const Stratum& stratum(const std::string& cell, int turn,
                         const std::string& value = "score") const;
  int turns() const { return turns_; }  ///< of the longest dialogue
  /// Mean of a counter over a cell's records, if it has any.
  std::optional<double> counter(const std::string& cell, const std::string& name) const;
  /// What the paper prints for a cell, if anything.
  std::optional<double> published(const Cell& cell, const std::string& metric = "") const;
  /// What the paper prints for the mean over these cells: as such, or else the mean of what it
  /// prints for each of them, if it does so for all.  Of a `metric` other than the cells' own only
  /// what names it counts.
  std::optional<double> published(const std::vector<const Cell*>& cells,
                                  const std::string& metric = "") const;

 private:
  bool belongs(const PublishedNumber& row, const Cell& cell, const std::string& metric) const;
  /// Which scores a table's value means: those of the report, or of a metric.
  ScoreChoice choice_of(const Store& store, const std::string& value) const;

  Manifest manifest_;
  std::vector<Cell> cells_;
  ScoreChoice choice_;
  /// By value, cell and turn (-1: all).
  std::map<std::tuple<std::string, std::string, int>, Stratum> strata_;
  std::map<std::string, std::map<std::string, double>> counters_;
  std::vector<PublishedNumber> published_;
  std::vector<Store::Failure> failures_;
  std::vector<std::string> environments_;
  std::map<std::string, Truncation> truncations_;  ///< by cell
  std::size_t pending_ = 0;
  int turns_ = 0;
};

/// One printed table: a label per row and column, and an estimate where there are results.
struct Pivot {
  std::string title;
  std::vector<std::string> row_dimensions, column_dimensions;
  /// Values of the dimensions, each in the order in which the manifest lists them.
  std::vector<std::vector<std::string>> rows, columns;
  struct Entry {
    Estimate estimate;
    std::optional<Estimate> difference;  ///< to the baseline method
    std::optional<double> published;     ///< what the paper prints for the entry
    std::map<std::string, double> counters;
  };
  std::vector<std::vector<std::optional<Entry>>> entries;  ///< [row][column]
  std::string baseline;

  bool has_published() const;  ///< for any entry
  /// Whether any entry has counters; probes alone have none.
  bool has_counters() const;
  /// Mean of a counter over a row's entries, if any has it.
  std::optional<double> mean_counter(std::size_t row, const std::string& name) const;
};

Pivot make_pivot(const Results& results, const TableSpec& spec);

/// Counters that an entry carries: mean tokens cached and read per KV head, pairs computed.
const std::vector<std::string>& reported_counters();

}  // namespace turnbench
