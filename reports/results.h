#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/experiment/manifest.h"
#include "harness/experiment/published.h"
#include "harness/store/cell_progress.h"
#include "harness/store/stale.h"
#include "harness/store/store.h"
#include "harness/store/truncation.h"
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
  /// Dialogues of a cell: how many have run, of how many that its dataset has.
  const CellProgress& progress(const Cell& cell) const { return progress_.at(cell.key); }
  /// Dialogues, counted in each cell, that have not run yet.
  std::size_t pending() const;
  const std::vector<std::string>& environments() const { return environments_; }
  /// What the prompts of a cell lost to their limit, and those of all cells.
  Truncation truncation(const std::string& cell) const;
  Truncation truncation() const;
  /// Cells with results that other sources decided than those of this program.
  const std::vector<StaleCell>& stale() const { return stale_; }
  const StaleCell* stale(const std::string& cell) const;  ///< null if it has none

  /// Value of a dimension of a cell, "-" for a setting that its method does not have.  `turn`
  /// counts from 0, or is negative where it is not a dimension.
  std::string dimension(const Cell& cell, int turn, const std::string& name) const;
  /// A table's value in one cell; `turn` < 0 means all turns.
  const Stratum& stratum(const std::string& cell, int turn,
                         const std::string& value = "score") const;
  int turns() const { return turns_; }  ///< of the longest dialogue
  /// Of the longest dialogue of a cell's dataset.
  int turns_of(const Cell& cell) const { return turns_of_.at(cell.dataset_hash); }
  /// Mean of a counter over a cell's records, if it has any.
  std::optional<double> counter(const std::string& cell, const std::string& name) const;
  /// What the paper prints, with its remarks.
  struct Published {
    double value = 0;
    std::vector<std::string> notes;
  };
  /// For a cell, if anything.
  std::optional<Published> published(const Cell& cell, const std::string& metric = "") const;
  /// For the mean over these cells: as such, or else the mean of what it prints for each of them,
  /// if it does so for all.  Of a `metric` other than the cells' own only what names it counts.
  std::optional<Published> published(const std::vector<const Cell*>& cells,
                                     const std::string& metric = "") const;
  /// The paper's numbers that belong to no cell, and those of which a cell has several.
  const std::vector<std::string>& published_problems() const { return published_problems_; }

 private:
  bool belongs(const PublishedNumber& row, const Cell& cell, const std::string& metric) const;
  void read_values(const Store& store, const std::string& experiment);
  void check_published();
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
  std::map<std::string, CellProgress> progress_;   ///< by cell
  std::map<std::string, Truncation> truncations_;  ///< by cell
  std::vector<StaleCell> stale_;
  std::vector<std::string> published_problems_;
  std::map<std::string, int> turns_of_;  ///< by dataset
  int turns_ = 0;
};

}  // namespace turnbench
