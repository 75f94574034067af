#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/record.h"
#include "harness/sqlite.h"

namespace turnbench {

/// One entry of a table: what it measures, under which settings.
struct Cell {
  std::string key;  ///< hash of everything that can move its results
  std::string model, dataset, task, position, method, history, answers, metric, postprocess;
  std::string model_hash, dataset_hash, method_canonical;
  std::string protocol;       ///< hash of the protocol card
  std::string protocol_text;  ///< the card itself, JSON
};

/// A stored dialogue: what a table needs to group and to resample by.
struct StoredDialogue {
  std::string dataset_hash, id;
  int turns = 0;
  std::string json;
};

/// The value of one metric on one record.
struct ScoreValue {
  std::string cell, dialogue;
  int turn = 0;
  std::string metric, postprocess;
  double value = 0;
};

/// One scored turn, as reports read it.
struct ScoredTurn {
  std::string cell, dialogue;
  int turn = 0;
  Record::Status status = Record::Status::kOk;
  double score = 0;
};

/// The results, in one SQLite file.  All writes are idempotent: keys are made of contents, so a
/// repeated or resumed run adds nothing twice.
class Store {
 public:
  /// Opens or creates; refuses a file that is not a store, or one of a newer schema.
  static Store create(const std::filesystem::path& path);
  static Store open(const std::filesystem::path& path);

  // --- writing -------------------------------------------------------------------------------
  struct Plan {
    std::string experiment, title, manifest;
    std::string directory;    ///< of the manifest: relative sources start there
    std::string published;    ///< CSV text of the published numbers, or empty
    std::vector<Cell> cells;  ///< in table order
    std::vector<StoredDialogue> dialogues;
    std::vector<std::pair<std::string, std::string>> models, datasets;  ///< hash, description
    std::string environment;                                            ///< JSON: build, machine
  };
  /// Makes the experiment known, and its manifest the one that reports use.
  void add_plan(const Plan& plan);
  /// One transaction: the records of a unit and their scores.
  void add_records(const std::vector<Record>& records, const std::vector<ScoreValue>& scores);
  /// Forgets the failed records of an experiment, so that `run` does them again; returns how many.
  int forget_failed(const std::string& experiment);

  // --- reading -------------------------------------------------------------------------------
  std::vector<std::string> experiments() const;  ///< names, oldest first
  std::string manifest(const std::string& experiment) const;
  std::string directory(const std::string& experiment) const;
  std::string published(const std::string& experiment) const;
  std::vector<Cell> cells(const std::string& experiment) const;
  /// Turns of each dialogue of a dataset: id -> number of turns.
  std::map<std::string, int> dialogues(const std::string& dataset_hash) const;
  /// (cell, dialogue) -> turns stored.
  std::map<std::pair<std::string, std::string>, int> done(const std::string& experiment) const;
  std::vector<ScoredTurn> scores(const std::string& experiment) const;
  struct Failure {
    std::string cell, dialogue, error;
    int turn;
  };
  std::vector<Failure> failures(const std::string& experiment) const;
  /// Mean of a counter over the ok records of each cell.
  std::map<std::string, double> mean_counter(const std::string& experiment,
                                             const std::string& counter) const;
  /// A counter or timing of every ok record that has it.
  std::vector<ScoredTurn> values(const std::string& experiment, const std::string& name) const;
  std::vector<std::string> environments(const std::string& experiment) const;

  const std::string& path() const { return db_->path(); }

 private:
  explicit Store(std::unique_ptr<Database> db) : db_(std::move(db)) {}
  std::string column_of(const std::string& experiment, const std::string& column) const;
  std::unique_ptr<Database> db_;
  std::string environment_;  ///< id of the plan's, for the records that follow
};

}  // namespace turnbench
