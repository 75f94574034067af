#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dialogue.h"
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

/// Which of a record's scores: those of a metric, of answers that were cut in a certain way.
struct ScoreChoice {
  std::string metric;       ///< empty: the cell's own
  std::string postprocess;  ///< empty: the cell's own
};

/// Who judges answers: a language model that reads a rubric.
struct Judge {
  std::string id;  ///< hash of what follows
  std::string rubric, rubric_hash, rubric_text, model;
};

/// One judging of one answer.
struct Judgement {
  enum class Status {
    kOk,
    kUnparsed,  ///< the reply is no judgement: it counts as given, and as no number
    kFailed     ///< no reply: it may be asked again
  };
  std::string cell, dialogue;
  int turn = 0;
  std::string judge;  ///< its id
  int ordinal = 0;    ///< from 0, of the judgings of an answer
  std::string url;    ///< without credentials
  Status status = Status::kOk;
  std::string error;  ///< one line, unless ok
  std::string reply;  ///< what the server sent, as it came
  std::vector<Record::Named>
      scores;  ///< on the rubric's scales, as they were read out of the reply
};
std::string_view name_of(Judgement::Status status);

/// The results, in one SQLite file.  All writes are idempotent: keys are made of contents, so a
/// repeated or resumed run adds nothing twice.
class Store {
 public:
  /// Opens or creates; refuses a file that is not a store, or one of a newer schema.
  static Store create(const std::filesystem::path& path);
  static Store open(const std::filesystem::path& path);
  /// Opens for what older stores have no tables for, and makes them.
  static Store open_to_extend(const std::filesystem::path& path);

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
  /// Adds cells to an experiment that is there, or is made, behind all that its manifest plans.
  void add_imported(const Plan& plan);
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
  /// All turns; those that are ok but lack a score are refused for a cell's own metric and
  /// postprocess, and without a value for others.
  std::vector<ScoredTurn> scores(const std::string& experiment,
                                 const ScoreChoice& choice = {}) const;
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

  // --- scoring what is stored (store_scores.cpp) ----------------------------------------------
  struct Answer {
    std::string cell;
    int turn = 0;
    std::string text;
  };
  /// Calls `take` for each dialogue of an experiment with its answers in all cells, by cell and
  /// turn; failed records have none.  `take` may write.
  void for_each_answered(
      const std::string& experiment,
      const std::function<void(const StoredDialogue&, const std::vector<Answer>&)>& take) const;
  StoredDialogue dialogue(const std::string& dataset_hash, const std::string& id) const;
  /// What is written in a stored dialogue; refuses one that has not the turns it is stored with.
  Dialogue parse(const StoredDialogue& stored) const;
  /// The answers of one dialogue in one cell, by turn; failed records have none.
  std::map<int, std::string> answers(const std::string& cell, const std::string& dialogue) const;

  /// One transaction.  Stored scores stay as they are, unless `replace`.  Returns what stood there
  /// for each score, if anything did.
  std::vector<std::optional<double>> put_scores(const std::vector<ScoreValue>& scores,
                                                bool replace);
  /// The metrics that an experiment has scores by.
  std::vector<std::string> metrics(const std::string& experiment) const;
  /// How the answers of an experiment's scores by `metric` were cut, and whether that is the
  /// cells' own way.
  std::map<std::string, bool> postprocesses(const std::string& experiment,
                                            const std::string& metric) const;

  void add_judge(const Judge& judge);
  /// Over a failed judging, if there is one; any other stays.
  void add_judgement(const Judgement& judgement);
  /// Of one answer, by ordinal.
  std::vector<Judgement> judgements(const std::string& judge, const std::string& cell,
                                    const std::string& dialogue, int turn) const;

  const std::string& path() const { return db_->path(); }

 private:
  explicit Store(std::unique_ptr<Database> db) : db_(std::move(db)) {}
  std::string column_of(const std::string& experiment, const std::string& column) const;
  void write_plan(const Plan& plan, bool imported);
  std::unique_ptr<Database> db_;
  std::string environment_;  ///< id of the plan's, for the records that follow
};

}  // namespace turnbench
