#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turnbench {

/// The result of one turn of one dialogue in one cell.
struct Record {
  enum class Status {
    kOk,
    kError,
    kOutOfMemory,
    kNoValue  ///< not asked, or nothing for a probe to measure: `error` gives the reason
  };

  std::string cell;      ///< key of the cell
  std::string dialogue;  ///< id within the cell's dataset
  int turn = 0;
  Status status = Status::kOk;
  std::string error;        ///< one line, unless ok
  std::string prompt_hash;  ///< hash of the token ids of the whole prompt
  int prompt_tokens = 0, truncated_tokens = 0;
  std::string answer;
  std::vector<int> answer_tokens;
  bool stopped = false;  ///< the answer ended at a stop token, not at the length limit

  struct NamedValue {
    std::string name;
    double value;
  };
  std::vector<NamedValue> counters;  ///< deterministic: tokens kept and read, bytes, pairs
  std::vector<NamedValue> timings;   ///< seconds
  std::string ledger;                ///< only for a cell that ran alone; packed (packed_ledger.h)
};

/// The score of one record by one metric.
struct ScoreValue {
  std::string cell, dialogue;
  int turn = 0;
  std::string metric, postprocess;
  double value = 0;
};

std::string_view name_of(Record::Status status);
Record::Status parse_status(std::string_view name);  ///< kError for unknown names
inline bool is_failure(Record::Status status) {
  return status == Record::Status::kError || status == Record::Status::kOutOfMemory;
}

}  // namespace turnbench
