#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/mean.h"
#include "harness/store/cell.h"

namespace turnbench {

/// What the answers of one cell took.  Only generated answers count: neither imported ones nor
/// records that failed or were not asked.
struct CellUsage {
  std::size_t answers = 0;
  std::size_t limited = 0;  ///< answers that ended at their length limit, not at a stop token
  /// Answers for which as many tokens were kept and read, and as many pairs of the prompt computed,
  /// as full attention would have.
  std::size_t as_full = 0;
  int longest_prompt = 0;  ///< tokens, earlier turns included
  /// Tokens of the prompt; tokens per KV head kept at its end; tokens that a decode step reads.
  Mean prompt = {}, kept = {}, read = {};
  /// Tokens that a decode step of full attention reads behind the prompt, its own among them.
  Mean answered = {};

  CellUsage& operator+=(const CellUsage& other);
};

/// False for cells whose answers have a fixed length (isolated measurements), or that have none
/// (probes).
bool has_length_limit(const Cell& cell);

/// "28 of 36 answers reached their length limit; by method: full 9 of 18, quest 0 of 18".  By
/// dataset and by method only where these differ.  Empty if no answer did.  Labels of the same
/// cell count once in the total.
std::string describe_limited(const std::vector<Cell>& cells,
                             const std::map<std::string, CellUsage>& by_cell);

}  // namespace turnbench
