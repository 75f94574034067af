#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// A set of lines of one head, as bits: the sets of a whole dataset fit in memory.
struct LineSet {
  std::vector<std::uint64_t> vertical, slash;
  int size = 0;

  /// The first `count` lines of `ranking`, which ranks as many vertical as slash lines.
  LineSet(std::span<const std::int32_t> ranking, int count)
      : vertical(ranking.size() / 2 / 64 + 1), slash(vertical.size()), size(count) {
    const std::size_t tokens = ranking.size() / 2;
    for (std::int32_t line : ranking.first(static_cast<std::size_t>(count))) {
      const auto number = static_cast<std::size_t>(line), at = number % tokens;
      (number < tokens ? vertical : slash)[at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
};

/// The number of lines in both sets.  Their prompts may have different lengths.
inline int count_common_lines(const LineSet& a, const LineSet& b) {
  const auto shared = [](const std::vector<std::uint64_t>& x, const std::vector<std::uint64_t>& y) {
    int out = 0;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      out += std::popcount(x[i] & y[i]);
    return out;
  };
  return shared(a.vertical, b.vertical) + shared(a.slash, b.slash);
}

}  // namespace turnbench
