#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/mean.h"
#include "harness/store/cell.h"

namespace turnbench {

/// Resources that the answers of one cell used.  Only generated answers count, not imported answers
/// or records that failed or were not asked.
struct CellUsage {
  std::size_t answers = 0;
  std::size_t limited = 0;  ///< answers that ended at their length limit, not at a stop token
  /// Answers for which the method kept and read as many tokens, and computed as many pairs of the
  /// prompt, as full attention.
  std::size_t as_full = 0;
  int longest_prompt = 0;  ///< tokens, earlier turns included
  /// Tokens of the prompt; tokens per KV head kept at its end; tokens read per decode step.
  Mean prompt = {}, kept = {}, read = {};
  /// Tokens after the prompt, including its own, that a decode step of full attention reads.
  Mean answered = {};

  CellUsage& operator+=(const CellUsage& other);
};

/// False for cells whose answers have a fixed length (isolated measurements) and for cells without
/// answers (probes).
bool has_length_limit(const Cell& cell);

/// "28 of 36 answers reached their length limit; by method: full 9 of 18, quest 0 of 18".  Counts
/// by dataset and by method appear only where they differ.  Empty if no answer reached its limit.
/// Several labels of the same cell count once in the total.
std::string describe_limited(const std::vector<Cell>& cells,
                             const std::map<std::string, CellUsage>& by_cell);

}  // namespace turnbench
