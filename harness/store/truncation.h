#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/store/cell.h"

namespace turnbench {

/// Counts prompts that were truncated.  The prompt of a later turn contains the earlier ones, so it
/// counts as truncated if one of them was.
struct Truncation {
  std::size_t prompts = 0;      ///< all prompts; imported answers have none
  std::size_t cut = 0;          ///< truncated prompts
  int longest = 0, cut_to = 0;  ///< tokens of the longest truncated prompt, before and after

  /// Adds a prompt of `tokens` tokens after `lost` tokens were cut.
  void add(int tokens, int lost);
  Truncation& operator+=(const Truncation& other);
  bool operator==(const Truncation&) const = default;
};

/// The sum over `cells`.  Cells that differ only in their methods have the same prompts, which
/// count once; the largest number among these cells is used.
Truncation total(const std::vector<Cell>& cells, const std::map<std::string, Truncation>& by_cell);

/// "3 of 8 prompts were cut, the longest from 72018 to 6144 tokens"; empty if none were.
std::string describe(const Truncation& truncation);

}  // namespace turnbench
