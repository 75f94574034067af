#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/store/record.h"
#include "harness/store/record_keys.h"

namespace turnbench {

/// Writes records and scores to a store, by statements that are prepared once.
class RecordWriter {
 public:
  explicit RecordWriter(Database& db);

  /// The run that writes.
  struct Run {
    std::string environment, metrics;  ///< id; hash of the metrics' sources
    /// Whether a method's records of an environment are of other sources than this run's.
    std::function<bool(const std::string& method, const std::string& environment)> differs;
  };
  /// Writes the records that are not stored yet, and their scores, within a transaction of the
  /// caller.  Stored records of other sources are replaced.  After an exception the writer must not
  /// be used again.
  /// @throws Error (runtime) for an unknown cell, dialogue or environment
  void write(const std::vector<Record>& records, const std::vector<ScoreValue>& scores,
             const Run& run);

 private:
  /// Removes the stored records of a unit if they are of other sources.
  void remove_stale(const std::string& cell, const std::string& dialogue, const Run& run);
  void write_values(std::int64_t id, const Record& record);

  Database& db_;
  Statement older_, record_, score_, counter_, timing_, ledger_;
  RecordRemover remover_;
  RecordKeys keys_;
};

}  // namespace turnbench
