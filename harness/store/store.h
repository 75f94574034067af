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
#include "harness/store/build.h"
#include "harness/store/cell.h"
#include "harness/store/record.h"
#include "harness/store/sqlite.h"
#include "harness/store/truncation.h"

namespace turnbench {

/// A stored dialogue: what a table needs to group and to resample by.
struct StoredDialogue {
  std::string dataset_hash, id;
  int turns = 0;
  std::string json;
};

/// An experiment as the store keeps it, with what its records refer to.
struct StoredExperiment {
  std::string name, title, manifest;
  std::string directory;    ///< of the manifest: relative sources start there
  std::string published;    ///< CSV text of the published numbers, or empty
  std::vector<Cell> cells;  ///< in table order
  std::vector<StoredDialogue> dialogues;
  std::vector<std::pair<std::string, std::string>> models, datasets;  ///< hash, description
  std::string environment;                                            ///< JSON: build, machine
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
  /// Opens or creates, and brings an older store up to date; refuses a file that is not a store, or
  /// one of a newer schema.
  static Store create(const std::filesystem::path& path);
  /// Opens to read, an older store as it is; the file and its folder may be read-only.
  static Store open(const std::filesystem::path& path);
  /// Opens to write, and brings an older store up to date.
  static Store open_to_write(const std::filesystem::path& path);

  // --- writing -------------------------------------------------------------------------------
  /// Makes the experiment known, and its manifest the one that reports use.
  void add_experiment(const StoredExperiment& experiment);
  /// One transaction: the records of a unit and their scores.  What is there already stays, unless
  /// other sources computed it: then the dialogue's records in the cell are replaced as a whole.
  void add_records(const std::vector<Record>& records, const std::vector<ScoreValue>& scores);
  /// A dialogue's results in one cell that are the results of another cell as well: the two differ
  /// in nothing but how many dialogues stand beside it.
  struct Adoption {
    std::string cell, from, dialogue;
  };
  /// Copies them, in one transaction, over what the cell holds of the dialogues.
  void adopt(const std::vector<Adoption>& adoptions);
  /// Adds cells to an experiment that is there, or is made, behind all that its manifest plans.
  void add_imported(const StoredExperiment& experiment);
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
  /// The content of the stored dialogues of a dataset, by their ids.
  std::map<std::string, std::string> dialogue_texts(const std::string& dataset_hash) const;
  /// What the store holds of a dialogue in one cell.
  struct Held {
    int turns = 0;
    std::vector<std::string> changed;  ///< parts of the program that have changed since
  };
  /// By dialogue; `now`: the sources that count as unchanged.  Empty for an unknown cell.
  std::map<std::string, Held> held(const std::string& cell,
                                   const SourceHashes& now = source_state().hashes) const;
  /// By cell: how many dialogues have scores by the cell's own metric, by the hash of the sources
  /// that scored them.
  std::map<std::string, std::map<std::string, std::size_t>> scored_by(
      const std::string& experiment) const;
  /// Hash of the sources that built a dataset's dialogues last; empty where it is not known.
  std::string dataset_sources(const std::string& dataset_hash) const;
  /// Cells whose results of a dialogue are those of this one: all but the dataset, of which they
  /// have another number of dialogues, is the same.
  std::vector<Cell> alike(const Cell& cell) const;
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
  /// What each cell's prompts lost, by its key (truncation.cpp).
  std::map<std::string, Truncation> truncations(const std::string& experiment) const;

  // --- taking results out (store_forget.cpp) ----------------------------------------------------
  /// A cell as a version of an experiment's manifest names it, or none (empty): of it only key and
  /// method.
  struct CellUse {
    std::string experiment;
    Cell cell;
  };
  std::vector<CellUse> cell_uses() const;
  struct Content {
    std::size_t records = 0, scores = 0, judgements = 0;
  };
  Content content(const std::string& cell) const;
  /// One transaction: the records of cells with all that hangs on them; an experiment with its plan
  /// unless empty; and what then belongs to nothing.
  void forget(const std::vector<std::string>& cells, const std::string& experiment);

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
  /// A record with its score by the cell's own metric, if it has one.
  struct StoredAnswer {
    std::string cell;
    int turn = 0;
    std::string status, error, answer;
    int prompt_tokens = 0, answer_tokens = 0;
    std::optional<double> score;
  };
  /// The records of one dialogue in all cells of an experiment, also failed ones
  /// (store_answers.cpp).
  std::vector<StoredAnswer> answers_of(const std::string& experiment,
                                       const std::string& dataset_hash,
                                       const std::string& dialogue) const;
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
  void write_experiment(const StoredExperiment& experiment, bool imported);
  /// Sources of an environment, by its id; read once each.
  const SourceHashes& sources_in(const std::string& environment) const;
  std::unique_ptr<Database> db_;
  std::string environment_;                       ///< id of the plan's, for the records that follow
  SourceHashes sources_ = source_state().hashes;  ///< of what is written
  mutable std::map<std::string, SourceHashes> known_sources_;
};

}  // namespace turnbench
