#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/packed_ledger.h"
#include "harness/store/record.h"
#include "harness/store/record_keys.h"
#include "harness/store/sqlite.h"

namespace turnbench {

/// The rows of one record, as they are stored.
struct TurnRows {
  struct Score {
    std::string metric, postprocess;
    double value;
    std::string sources;
  };
  struct JudgementRow {
    std::string judge;
    std::int64_t ordinal;
    std::string url, status, error, reply, scores;
  };

  std::int64_t turn = 0;
  std::string status, error, prompt_hash, answer, answer_tokens, environment;
  std::int64_t prompt_tokens = 0, truncated_tokens = 0, stopped = 0;
  std::vector<Score> scores;                          ///< by metric and postprocess
  std::vector<Record::NamedValue> counters, timings;  ///< by name
  std::optional<BoundedLedger> ledger;
  std::vector<JudgementRow> judgements;  ///< by judge and ordinal
};

/// The rows of a unit: one dialogue in one cell, by turn.
struct UnitRows {
  std::vector<TurnRows> turns;

  /// True if a record failed.  The whole unit is repeated in this case, because later turns depend
  /// on earlier ones.
  bool failed() const;
};

/// The first deterministic value in which two units differ.
struct UnitDifference {
  std::int64_t turn = 0;
  std::string field;          ///< "answer", "score qa_f1", "counter kv_tokens"
  std::string first, second;  ///< the values, readable
};

/// Compares what computations of a unit must agree in: status, prompt, answer, scores and counters,
/// but not timings and environments.  A score that only one of them has is no difference.
std::optional<UnitDifference> difference_between(const UnitRows& first, const UnitRows& second);

/// Reads units from a store of any schema.
class UnitReader {
 public:
  explicit UnitReader(const Database& db);
  /// Empty if there are no records.
  UnitRows read(const std::string& cell, const std::string& dialogue);

 private:
  /// Calls `row(turn, statement)` for each row of a table; `turn` is the record it belongs to.
  template <typename Row>
  static void for_each(Statement* statement, const std::string& cell, const std::string& dialogue,
                       UnitRows& unit, const Row& row);

  Statement records_, scores_, counters_, timings_;
  std::unique_ptr<Statement> ledgers_, judgements_;  ///< null if an older store has no such table
};

/// Writes units, within a transaction of the caller.
class UnitWriter {
 public:
  explicit UnitWriter(const Database& db);
  /// Adds a unit of which no record is there.
  void add(const std::string& cell, const std::string& dialogue, const UnitRows& unit);
  void remove(const std::string& cell, const std::string& dialogue);
  /// Adds the scores and judgements of `more` that `unit`, which is stored, does not have, and
  /// replaces failed judgements.  Returns the numbers of both.
  std::pair<std::size_t, std::size_t> complete(const std::string& cell, const std::string& dialogue,
                                               const UnitRows& unit, const UnitRows& more);

 private:
  void put(std::int64_t record, const TurnRows::Score& score);
  void put(std::int64_t record, const TurnRows::JudgementRow& judgement);

  RecordKeys keys_;
  RecordRemover remover_;
  Statement record_, score_, counter_, timing_, ledger_, judgement_;
};

}  // namespace turnbench
