#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/experiment/manifest.h"
#include "harness/experiment/published.h"
#include "harness/store/cell_progress.h"
#include "harness/store/stale.h"
#include "harness/store/store.h"
#include "harness/store/truncation.h"
#include "reports/statistics/stratum.h"

namespace turnbench {

/// The name in tables of scores by another metric than the cells' own; empty for the cells' own.
std::string name_of(const ScoreChoice& choice);

/// Everything that a report needs about one experiment, read from the store.
class Results {
 public:
  /// `choice`: which scores the tables show.
  /// @throws Error (input) if there are no such scores, or if `choice` does not decide between
  /// several postprocesses (for judgements: judges).
  Results(const Store& store, const std::string& experiment, const ScoreChoice& choice = {});

  const Manifest& manifest() const { return manifest_; }
  /// The manifest's tables.  If it has none, one table of datasets and positions, whose rows are
  /// all other dimensions in which the cells differ.
  const std::vector<TableSpec>& tables() const { return tables_; }
  /// Keeps only one table, by its index in `tables`.
  void keep_table(std::size_t table) {
    tables_ = {tables_.at(table)};
    first_table_ = table;
  }
  /// The number of a table among all of the manifest, from 1.
  std::size_t table_number(std::size_t table) const { return first_table_ + table + 1; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<Store::Failure>& failures() const { return failures_; }
  /// Which scores the tables show.
  const ScoreChoice& score_choice() const { return choice_; }
  /// Unit and direction (which values are better) of a table with this `value`.
  const TableValue& unit_of(const std::string& value) const;
  /// The number of a cell's dialogues, and the number that have run.
  const CellProgress& progress(const Cell& cell) const { return progress_.at(cell.key); }
  /// The number of dialogues that some cell has not run yet; with `imported`, of dialogues that
  /// cells of imported predictions lack.  A dialogue counts once for all cells of its dataset.
  std::size_t pending(bool imported = false) const;
  const std::vector<std::string>& environments() const { return environments_; }
  /// Truncation of the prompts of one cell, of several cells, and of all cells.
  Truncation truncation(const std::string& cell) const;
  Truncation truncation(const std::vector<Cell>& cells) const;
  Truncation truncation() const { return truncation(cells_); }
  /// The number of judgements that are in no score because they could not be parsed: one text per
  /// judge.
  const std::set<std::string>& unparsed_judgements() const { return unparsed_; }
  /// Resources that the answers of each cell used, by the cell's key.
  const std::map<std::string, CellUsage>& usages() const { return usages_; }
  /// The store has dialogues without hashes of their texts: all of them are independent units.
  bool lacks_text_hashes() const { return lacks_text_hashes_; }
  /// Cells with results of other sources than this program's.
  const std::vector<StaleCell>& stale() const { return stale_; }
  const StaleCell* stale(const std::string& cell) const;  ///< null if it has no stale results

  /// The value of a table dimension for a cell; "-" for a setting that its method does not have.
  /// `turn` counts from 0, and is negative if turn is not a dimension.
  std::string dimension(const Cell& cell, int turn, const std::string& name) const;
  /// The values that the cells have in a dimension, in table order.
  std::vector<std::string> values_of(const std::string& name) const;
  /// The values of one cell for a table; `turn` < 0 means all turns.
  const Stratum& stratum(const std::string& cell, int turn,
                         const std::string& value = "score") const;
  /// The dimensions that tell all methods apart: method, and those of model, history and answers
  /// that have several values.
  std::vector<std::string> method_dimensions() const;
  int turns() const { return turns_; }  ///< maximum over all dialogues
  /// Maximum number of turns in a cell's dataset.
  int turns_of(const Cell& cell) const;
  /// The number of turns of a cell's dialogues with this index, or of all turns if it is negative.
  int turn_count(const Cell& cell, int turn) const;
  /// False if no dialogue of a cell's dataset has a reference for this turn; negative: for any
  /// turn.
  bool has_reference(const Cell& cell, int turn) const;
  /// Mean over a cell's records of a counter that reports show, or of a cost; nullopt if no record
  /// has it.
  std::optional<double> counter(const std::string& cell, const std::string& name) const;
  /// A number of a paper, with its remarks.
  struct Published {
    double value = 0;
    std::vector<std::string> notes;
  };
  /// The published number for a cell, if any.
  std::optional<Published> published(const Cell& cell, const std::string& metric = "") const;
  /// The published number for the mean over these cells: the paper's own mean, or else the mean of
  /// its numbers for all of them.  For a `metric` other than the cells' own, only numbers with this
  /// metric are used.
  std::optional<Published> published(const std::vector<const Cell*>& cells,
                                     const std::string& metric = "") const;
  /// One line for each published number that matches no cell, or that shares its cell with another
  /// published number.
  const std::vector<std::string>& published_problems() const { return published_problems_; }

 private:
  class StratumReader;
  class TurnCounter;

  bool belongs(const PublishedNumber& row, const Cell& cell, const std::string& metric) const;
  void read_populations(const Store& store);
  void read_values(const Store& store, const std::string& experiment);
  void read_references(const Store& store);
  void check_published();
  TableSpec table_of_all_cells() const;
  /// The scores that tables with this `value` show: those of the report, or those by the metric
  /// that `value` names.
  ScoreChoice choice_of(const Store& store, const std::string& value) const;

  Manifest manifest_;
  std::vector<Cell> cells_;
  std::vector<TableSpec> tables_;
  std::size_t first_table_ = 0;  ///< index in the manifest of the first of these
  ScoreChoice choice_;
  /// By value, cell and turn (-1: all).
  std::map<std::string, std::shared_ptr<const Population>> populations_;  ///< by dataset
  std::map<std::string, std::vector<int>> dialogue_turns_;  ///< by dataset: as in `ids`
  /// By dataset that has turns without a reference: the turns that have one in some dialogue.
  std::map<std::string, std::vector<bool>> referenced_;
  std::map<std::tuple<std::string, std::string, int>, Stratum> strata_;
  std::map<std::string, std::map<std::string, double>> counters_;
  std::vector<PublishedNumber> published_;
  std::vector<Store::Failure> failures_;
  std::vector<std::string> environments_;
  std::map<std::string, CellProgress> progress_;   ///< by cell
  std::map<std::string, Truncation> truncations_;  ///< by cell
  std::map<std::string, CellUsage> usages_;        ///< by cell
  std::vector<StaleCell> stale_;
  std::set<std::string> unparsed_;
  std::vector<std::string> published_problems_;
  int turns_ = 0;
  bool lacks_text_hashes_ = false;
};

}  // namespace turnbench
