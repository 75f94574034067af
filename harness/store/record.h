#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turnbench {

/// What became of one turn of one dialogue in one cell.
struct Record {
  enum class Status {
    kOk,
    kError,
    kOutOfMemory,
    kNoValue  ///< nothing failed, but a probe had nothing to measure: `error` says why
  };

  std::string cell;      ///< key of the cell
  std::string dialogue;  ///< id within the cell's dataset
  int turn = 0;
  Status status = Status::kOk;
  std::string error;        ///< one line, unless ok
  std::string prompt_hash;  ///< of the token ids of the whole prompt
  int prompt_tokens = 0, truncated_tokens = 0;
  std::string answer;
  std::vector<int> answer_tokens;
  bool stopped = false;  ///< ended by a stop token, not by the length limit

  struct Named {
    std::string name;
    double value;
  };
  std::vector<Named> counters;  ///< repeatable to the bit: tokens kept and read, bytes, pairs
  std::vector<Named> timings;   ///< seconds
};

/// The value of one metric on one record.
struct ScoreValue {
  std::string cell, dialogue;
  int turn = 0;
  std::string metric, postprocess;
  double value = 0;
};

std::string_view name_of(Record::Status status);
inline bool is_failure(Record::Status status) {
  return status == Record::Status::kError || status == Record::Status::kOutOfMemory;
}

}  // namespace turnbench
