#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "harness/store/sqlite.h"

namespace turnbench {

/// The range of record ids of a cell or of a unit: [first, last].
struct RecordIds {
  std::int64_t first = 0, last = -1;
};

// A record's id consists of the number of its cell, of its dialogue within the dataset, and of its
// turn, so that the records of a cell, and the rows that refer to them, lie together.
constexpr int kTurnBits = 14, kDialogueBits = 20;
constexpr std::int64_t kMostTurns = std::int64_t{1} << kTurnBits,
                       kMostDialogues = std::int64_t{1} << kDialogueBits;

/// Maps texts to the integers by which the large tables refer to them.  Remembers them: for use
/// within one transaction, because other programs may delete rows.
class RecordKeys {
 public:
  explicit RecordKeys(const Database& db);
  /// Forgets what it remembers, before another transaction.
  void clear();

  /// The ids of a cell's records; an empty range for an unknown cell.
  RecordIds cell(const std::string& key);
  /// The ids of a unit's records; an empty range for an unknown cell or dialogue.
  RecordIds unit(const std::string& cell, const std::string& dialogue);
  /// The id of a record that is to be stored, or that other rows refer to.
  /// @throws Error (runtime) for an unknown cell or dialogue, and for a turn out of range
  std::int64_t record(const std::string& cell, const std::string& dialogue, std::int64_t turn);
  /// The id of a name (of a counter, timing, metric or post-processing), which is added if needed.
  std::int64_t name(const std::string& name);
  /// The id of the hash of metrics' sources, which is added if needed.
  std::int64_t source(const std::string& hash);
  /// The number of an environment.
  /// @throws Error (runtime) for an unknown one
  std::int64_t environment(const std::string& id);

 private:
  const Database& db_;
  Statement find_cell_, find_dialogue_, find_name_, add_name_, find_source_, add_source_,
      find_environment_;
  std::map<std::string, std::pair<std::int64_t, std::string>> cells_;  ///< key -> id, dataset
  std::map<std::string, std::int64_t> names_, sources_, environments_;
  std::string last_cell_, last_dialogue_;  ///< the unit of the last call
  RecordIds last_unit_;
};

/// Deletes records, with all rows that refer to them, even if the connection does not check foreign
/// keys.
class RecordRemover {
 public:
  explicit RecordRemover(const Database& db);
  void remove(const RecordIds& ids);

 private:
  Statement scores_, counters_, timings_, ledgers_, judgements_, records_;
};

/// The texts behind the columns of `cell_rows_sql` that refer to a small table by number.
class StoredTexts {
 public:
  static StoredTexts environments(const Database& db);  ///< ids
  static StoredTexts names(const Database& db);
  /// The text of a column; empty for an unknown number.  Valid as long as the row and this object.
  std::string_view of(const Statement& row, int column) const;

 private:
  StoredTexts(const Database& db, const char* sql);

  bool by_number_;  ///< false in older stores, which have the texts themselves
  std::map<std::int64_t, std::string> texts_;
};

}  // namespace turnbench
