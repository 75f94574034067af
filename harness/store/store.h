#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/store/cell.h"
#include "harness/store/cell_summary.h"
#include "harness/store/cell_usage.h"
#include "harness/store/provenance.h"
#include "harness/store/record.h"
#include "harness/store/shard.h"
#include "harness/store/sqlite.h"
#include "harness/store/timed_dialogue.h"
#include "harness/store/truncation.h"
#include "inference/kv/ledger.h"

namespace turnbench {

/// A dialogue in the store's form.
struct StoredDialogue {
  std::string dataset_hash, id;
  int turns = 0;
  std::string json;  ///< as `to_json_line` writes it
};

/// An experiment in the store's form, with everything that its records refer to.
struct StoredExperiment {
  std::string name, title, manifest;
  std::string directory;    ///< directory of the manifest, against which relative paths of sources
                            ///< are resolved
  std::string published;    ///< CSV text of the published numbers, or empty
  std::vector<Cell> cells;  ///< in table order
  std::vector<StoredDialogue> dialogues;
  std::vector<std::pair<std::string, std::string>> models, datasets;  ///< hash, description
  std::string environment;                                            ///< JSON: build, machine
};

/// The score of one turn.
struct ScoredTurn {
  std::string cell, dialogue;
  int turn = 0;
  Record::Status status = Record::Status::kOk;
  double score = 0;
};

/// A stored turn with its score, as `Store::for_each_turn` visits it.
struct StoredTurn {
  std::string_view cell, dialogue, environment;
  std::string_view error = {};
  int turn = 0;
  Record::Status status = Record::Status::kOk;
  double score = 0;
  int prompt_tokens = 0, truncated_tokens = 0;
  bool lacks_reference = false;  ///< the reason why there is no score
};

/// Selects among the scores of a record.
struct ScoreChoice {
  std::string metric;       ///< empty: the cell's own
  std::string postprocess;  ///< empty: the cell's own
};

/// A judge of answers: a language model with a rubric.
struct Judge {
  std::string id;  ///< hash of the rubric and the model
  std::string rubric, rubric_hash, rubric_text, model;
};
/// MODEL@ID, the postprocess name of the scores of a judge.
std::string name_of(const Judge& judge);

/// One judgement of one answer.
struct Judgement {
  enum class Status {
    kOk,
    kUnparsed,  ///< the reply has no scores; it is not requested again
    kFailed     ///< there is no reply; it may be requested again
  };
  std::string cell, dialogue;
  int turn = 0;
  std::string judge;  ///< id of the judge
  int ordinal = 0;    ///< number among the judgements of the answer, from 0
  std::string url;    ///< without credentials
  Status status = Status::kOk;
  std::string error;                       ///< one line, unless ok
  std::string reply;                       ///< the body that the server sent, unchanged
  std::vector<Record::NamedValue> scores;  ///< read from the reply, on the rubric's scale
};
std::string_view name_of(Judgement::Status status);

class RecordWriter;

/// The results of experiments, in one SQLite file.  All writes are idempotent: keys are hashes of
/// contents, so a repeated or resumed run adds nothing twice.  Not thread-safe.
class Store {
 public:
  ~Store();
  Store(Store&& other) noexcept;

  /// Opens or creates a store, and migrates an older one.
  /// @throws Error (input) for a file that is not a store, or has a newer schema.
  static Store create(const std::filesystem::path& path);
  /// Opens a store for reading.  Does not migrate it.  The file and its folder may be read-only.  A
  /// file without a schema, as a killed run may leave it, is an empty store.
  static Store open(const std::filesystem::path& path);
  /// As `open`; everything is read in the state of this moment, even if others write meanwhile.
  static Store open_snapshot(const std::filesystem::path& path);
  /// True if the file is a store and can be written.
  /// @throws Error (runtime) if another process keeps it locked.
  static bool is_writable(const std::filesystem::path& path);
  /// A copy in memory, which can be written even if the file is read-only.
  Store copy_in_memory() const;
  /// Opens an existing store for writing, and migrates an older one.
  static Store open_to_write(const std::filesystem::path& path);

  // --- writing -------------------------------------------------------------------------------
  /// Adds an experiment, or a new version of it.  Its manifest becomes the one that reports use.
  void add_experiment(const StoredExperiment& experiment);
  /// Adds the records of a unit and their scores, in one transaction.  Existing records stay,
  /// unless other sources computed them: then all records of the dialogue in the cell are replaced.
  void add_records(const std::vector<Record>& records, const std::vector<ScoreValue>& scores);
  /// A dialogue whose results in cell `from` are also valid for `cell`: the two cells differ only
  /// in the number of dialogues of their dataset.
  struct ResultCopy {
    std::string cell, from, dialogue;
  };
  /// Copies such results in one transaction.  Replaces the cells' own results of these dialogues.
  void copy_results(const std::vector<ResultCopy>& copies);
  /// Adds imported cells to an experiment, after its planned cells.  Adds the experiment if needed.
  void add_imported(const StoredExperiment& experiment);
  /// Deletes the failed records of an experiment, so that `run` computes them again.  Returns their
  /// number.
  int forget_failed(const std::string& experiment);

  // --- reading -------------------------------------------------------------------------------
  std::vector<std::string> experiments() const;  ///< names, oldest first
  std::string manifest(const std::string& experiment) const;
  std::string directory(const std::string& experiment) const;
  std::string published(const std::string& experiment) const;
  std::vector<Cell> cells(const std::string& experiment) const;
  /// The dialogues of a dataset: id -> number of turns.
  std::map<std::string, int> turn_counts(const std::string& dataset_hash) const;
  /// For each turn of the longest dialogue, whether any dialogue has a reference for it.
  std::vector<bool> turns_with_references(const std::string& dataset_hash) const;
  /// The dialogues of a dataset: id -> hashes of the texts (dialogue_hashes.h), none in older
  /// stores.
  std::map<std::string, std::vector<std::string>> text_hashes(
      const std::string& dataset_hash) const;
  /// The number of dialogues of each dataset, by its hash.
  std::map<std::string, std::size_t> dialogue_counts() const;
  /// The dialogues of a dataset: id -> hash of the JSON; "" for dialogues without texts in stores
  /// of versions before 6.
  std::map<std::string, std::string> content_hashes(const std::string& dataset_hash) const;
  /// The stored result of one dialogue in one cell.
  struct StoredResult {
    int turns = 0;                     ///< stored turns
    bool has_failed = false;           ///< one of them has
    std::vector<std::string> changed;  ///< parts of the program that have changed since
  };
  /// The results of a cell: dialogue -> result.  `now`: the sources to compare with.  Empty for an
  /// unknown cell.
  std::map<std::string, StoredResult> stored_results(
      const std::string& cell, const SourceHashes& now = source_state().hashes) const;
  /// True if parts of the program that determine the cell's results have changed since some of them
  /// were computed.
  bool has_changed_results(const Cell& cell, const SourceHashes& now) const;
  /// Scores by metrics of this program that other `sources` computed.
  struct ScoresOfOthers {
    std::map<std::string, std::size_t> dialogues;  ///< cell -> number of them; only cells with any
    /// Metric and post-processing -> cells.
    std::map<std::pair<std::string, std::string>, std::set<std::string>> metrics;
  };
  ScoresOfOthers scores_of_others(const std::string& experiment, const std::string& sources) const;
  /// Hash of the sources that built a dataset's dialogues most recently; empty if unknown.
  std::string dataset_sources(const std::string& dataset_hash) const;
  /// Cells in which a dialogue has the same results as in `cell`: they differ only in the number of
  /// dialogues of the dataset.
  std::vector<Cell> cells_with_equal_results(const Cell& cell) const;
  /// (cell, dialogue) -> number of stored turns.
  std::map<std::pair<std::string, std::string>, int> stored_turn_counts(
      const std::string& experiment) const;
  /// Visits all turns with their scores, by cell in table order, dialogue and turn.  A turn that is
  /// ok but has no such score gets the status kNoValue; so does a turn without a reference, even if
  /// an older version stored a score for it.
  /// @throws Error if a turn with a reference has no score by the cells' own metric and
  /// postprocess.
  void for_each_turn(const std::string& experiment, const ScoreChoice& choice,
                     const std::function<void(const StoredTurn&)>& visit) const;
  /// The scores of all turns, as `for_each_turn` visits them.
  std::vector<ScoredTurn> scores(const std::string& experiment,
                                 const ScoreChoice& choice = {}) const;
  struct Failure {
    std::string cell, dialogue, error;
    int turn;
  };
  std::vector<Failure> failures(const std::string& experiment) const;
  /// Summaries of the records of each cell, by its key (cell_summary.h).
  std::map<std::string, CellSummary> summaries(const std::string& experiment) const;
  /// Means of counters over the ok records of each cell: counter -> cell -> mean.
  std::map<std::string, std::map<std::string, double>> mean_counters(
      const std::string& experiment, const std::vector<std::string>& counters) const;
  /// A counter or timing, for every ok record that has it.
  std::vector<ScoredTurn> values(const std::string& experiment, const std::string& name) const;
  /// The JSON cards of machines and builds.
  std::vector<std::string> environments(const std::set<std::string>& ids) const;
  /// Times of dialogues in all cells, on machines that match the environment card
  /// (store_times.cpp).
  std::vector<TimedDialogue> timed_dialogues(const std::string& environment) const;
  /// Truncation of the prompts of each cell, by its key (truncation.cpp).
  std::map<std::string, Truncation> truncations(const std::string& experiment) const;
  /// Resources that the answers of each cell used, by the cell's key (cell_usage.cpp).
  std::map<std::string, CellUsage> usages(const std::string& experiment) const;

  // --- shards (store_shards.cpp) ---------------------------------------------------------------
  /// Records that the store runs a shard of an experiment's latest manifest.
  void put_shard(const std::string& experiment, const StoredShard& shard);
  /// Records that the store runs all units of this manifest.
  void remove_shards(const std::string& experiment);
  std::vector<StoredShard> shards(const std::string& experiment) const;
  /// As above, for the units of a shard.
  int forget_failed(const std::string& experiment, const StoredShard& shard);

  // --- times of runs (store_run_times.cpp) ----------------------------------------------------
  /// The time of runs: by the clock, of all their workers together, and of this in the engine.
  struct RunTime {
    std::size_t runs = 0, units = 0;
    double seconds = 0, worker_seconds = 0, engine_seconds = 0;
  };
  /// Adds the time of one run of an experiment's latest manifest.
  void add_run_time(const std::string& experiment, const RunTime& time);
  /// The sums over the runs of this manifest.
  RunTime run_time(const std::string& experiment) const;

  // --- deleting results (store_forget.cpp) ----------------------------------------------------
  /// A cell, and an experiment of which some version of the manifest contains it (empty: none).
  /// Only key and method of the cell are set.
  struct CellUse {
    std::string experiment;
    Cell cell;
  };
  std::vector<CellUse> cell_uses() const;
  struct RowCounts {
    std::size_t records = 0, scores = 0, judgements = 0;
  };
  RowCounts row_counts(const std::string& cell) const;
  /// Deletes in one transaction: the records of `cells` with their scores and other data; the
  /// experiment with its plan, unless `experiment` is empty; then all rows that are no longer
  /// referenced.
  void forget(const std::vector<std::string>& cells, const std::string& experiment);
  /// Returns the space of deleted rows to the file system.  Needs space for a second copy while it
  /// runs.  Returns the size of the file in bytes before and after.
  std::pair<std::uintmax_t, std::uintmax_t> shrink();

  // --- scoring stored answers (store_scores.cpp) ----------------------------------------------
  struct Answer {
    std::string cell;
    int turn = 0;
    std::string text;
  };
  /// Calls `visit` for each dialogue of an experiment, with its answers in all cells, ordered by
  /// cell and turn.  Failed records have no answer.  `visit` may write to the store.
  void for_each_answered_dialogue(
      const std::string& experiment,
      const std::function<void(const StoredDialogue&, const std::vector<Answer>&)>& visit) const;
  /// A record with its score by the cell's own metric, if it has one.
  struct StoredAnswer {
    std::string cell;
    int turn = 0;
    std::string status, error, answer;
    int prompt_tokens = 0, answer_tokens = 0;
    bool stopped = false;  ///< at a stop token, not at the length limit
    std::optional<double> score;
  };
  /// The records of one dialogue in all cells of an experiment, including failed ones
  /// (store_answers.cpp).
  std::vector<StoredAnswer> answers_of(const std::string& experiment,
                                       const std::string& dataset_hash,
                                       const std::string& dialogue) const;
  /// The deterministic parts of a stored turn, in addition to its scores.
  struct TurnResult {
    std::string dialogue;
    int turn = 0;
    std::string status, prompt_hash, answer;
    std::string answer_tokens;                 ///< ids, JSON
    std::vector<Record::NamedValue> counters;  ///< by name
  };
  /// The turns of a cell, by dialogue and turn (store_answers.cpp).
  std::vector<TurnResult> turn_results(const std::string& cell) const;
  /// Ids of the environments that computed a cell's records.
  std::set<std::string> environments_of(const std::string& cell) const;
  /// Hashes of the metric sources that computed the scores of a cell by its own metric.
  std::set<std::string> score_sources(const Cell& cell) const;
  /// Visits the ledgers of an experiment's records, by cell in table order, dialogue and turn.
  /// dropped: what was left out of a large one (`BoundedLedger`), or empty.
  void for_each_ledger(
      const std::string& experiment,
      const std::function<void(const std::string& cell, const std::string& dialogue, int turn,
                               const Ledger& ledger, const std::string& dropped)>& visit) const;
  StoredDialogue dialogue(const std::string& dataset_hash, const std::string& id) const;
  /// Parses a stored dialogue.
  /// @throws Error if its number of turns is not the stored one.
  Dialogue parse(const StoredDialogue& stored) const;
  /// The answers of one dialogue in one cell, by turn.  Failed records have no answer.
  std::map<int, std::string> answers(const std::string& cell, const std::string& dialogue) const;

  /// Stores scores in one transaction.  Existing scores stay, unless `replace`.  Returns the
  /// previous value of each score, if there was one.
  std::vector<std::optional<double>> put_scores(const std::vector<ScoreValue>& scores,
                                                bool replace);
  /// Deletes scores, regardless of their values, in one transaction.  Returns for each whether it
  /// existed.
  std::vector<bool> delete_scores(const std::vector<ScoreValue>& scores);
  /// The metrics by which an experiment has scores.
  std::vector<std::string> metrics(const std::string& experiment) const;
  /// The postprocesses with which an experiment has scores by `metric`, and for each whether it is
  /// the cells' own.
  std::map<std::string, bool> postprocesses(const std::string& experiment,
                                            const std::string& metric) const;

  void add_judge(const Judge& judge);
  /// Adds a judgement.  It replaces a failed one with the same ordinal; any other stays.
  void add_judgement(const Judgement& judgement);
  /// The number of judgements of an experiment's answers by one judge.
  struct JudgementCounts {
    Judge judge;  ///< without the rubric's text
    std::size_t judgements = 0, unparsed = 0, failed = 0;
  };
  std::vector<JudgementCounts> judgement_counts(const std::string& experiment) const;
  /// The judgements of one answer, by ordinal.
  std::vector<Judgement> judgements(const std::string& judge, const std::string& cell,
                                    const std::string& dialogue, int turn) const;

  const std::string& path() const { return db_->path(); }
  /// As `Database::journal_note`.
  const std::string& journal_note() const { return db_->journal_note(); }

 private:
  explicit Store(std::unique_ptr<Database> db);
  std::string column_of(const std::string& experiment, const std::string& column) const;
  void write_experiment(const StoredExperiment& experiment, bool imported);
  /// Deletes all records of the dialogues of failed records, within a transaction.
  void forget_dialogues(const std::vector<Failure>& failed);
  /// For each turn of a dialogue, whether it has a reference; cached.  Empty if the store does not
  /// record it.
  const std::vector<bool>& referenced_turns(const std::string& dataset,
                                            std::string_view dialogue) const;
  /// The sources of an environment, by its id; cached.
  const SourceHashes& sources_in(const std::string& environment) const;
  std::unique_ptr<Database> db_;
  std::unique_ptr<RecordWriter> writer_;  ///< of the last call of add_records
  std::string environment_;               ///< id of the current environment, for new records
  SourceHashes sources_ = source_state().hashes;  ///< for new records
  mutable std::map<std::string, SourceHashes> known_sources_;
  mutable std::map<std::pair<std::string, std::string>, std::vector<bool>> known_references_;
};

}  // namespace turnbench
