#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace turnbench {

/// How many prompts lost tokens to their limit.  A later turn's prompt begins with those before it,
/// and so it lacks what they lack.
struct Truncation {
  std::size_t prompts = 0;  ///< that were asked; imported answers come without
  std::size_t cut = 0;
  int longest = 0, cut_to = 0;  ///< tokens of the longest of those that were cut, before and after

  /// Counts a prompt of `tokens` tokens that has lost `lost` more.
  void add(int tokens, int lost);
  Truncation& operator+=(const Truncation& other);
  bool operator==(const Truncation&) const = default;
};

/// Of all cells together.
Truncation total(const std::map<std::string, Truncation>& by_cell);

/// "3 of 8 prompts were cut, the longest from 72018 to 6144 tokens"; empty if none was.
std::string text_of(const Truncation& truncation);

}  // namespace turnbench
