#pragma once

// Sign-flip tests of a family of differences, computed without the library.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace turnbench::test {

/// Adjusted p-values by step-down maxT over all flips of the dialogues: [member].
/// differences: [member][dialogue], the contribution of each dialogue.
inline std::vector<double> adjusted_by_all_flips(
    const std::vector<std::vector<double>>& differences) {
  constexpr double kRounding = 1e-9;
  const auto statistic = [](const std::vector<double>& d, std::size_t flips) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < d.size(); ++i) {
      sum += (flips >> i & 1) != 0 ? -d[i] : d[i];
      squares += d[i] * d[i];
    }
    return squares > 0 ? std::abs(sum) / std::sqrt(squares) : 0.0;
  };
  const std::size_t all = std::size_t{1} << differences.front().size();
  std::vector<double> observed, single;
  for (const std::vector<double>& own : differences) observed.push_back(statistic(own, 0));
  for (std::size_t i = 0; i < differences.size(); ++i) {
    std::size_t reached = 0;
    for (std::size_t flips = 0; flips < all; ++flips) {
      double largest = 0;  // over the members whose observed statistic is not larger
      for (std::size_t j = 0; j < differences.size(); ++j) {
        if (observed[j] <= observed[i] + kRounding)
          largest = std::max(largest, statistic(differences[j], flips));
      }
      reached += largest >= observed[i] - kRounding;
    }
    single.push_back(static_cast<double>(reached) / static_cast<double>(all));
  }
  std::vector<double> out = single;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (observed[j] > observed[i] + kRounding) out[i] = std::max(out[i], single[j]);
    }
  }
  return out;
}

}  // namespace turnbench::test
