#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// Sampled rows of one head's attention matrix: cell (r, j) is the probability of key `keys[j]` for
/// the row at position `rows[r]`, 0 beyond it.
struct SampledAttention {
  std::span<const std::int32_t> rows;  ///< ascending positions
  std::span<const std::int32_t> keys;  ///< ascending positions
  std::span<const float> cells;        ///< [rows][ld]
  std::size_t ld;
  float at(std::size_t r, std::size_t j) const { return cells[r * ld + j]; }
};

struct LineSelection {
  std::vector<std::int32_t> offsets;  ///< slash lines (row - key), ascending
  std::vector<std::int32_t> columns;  ///< vertical lines (key positions), ascending
  double covered = 0, total = 0;      ///< probability mass on the chosen lines, and in all
};

/// Greedy cover by slash and vertical lines until `alpha` of the mass is on them (LoopServe,
/// section 5.2, Algorithm 2).  Lines are taken in the order of their whole weight; at each step the
/// better head of the two lists wins by residual gain per residual cell, slash first on ties.
/// Offset 0 is always chosen.  The sequence of choices does not depend on alpha, so selections are
/// nested in it.
LineSelection select_lines(const SampledAttention& attention, double alpha);

/// The same with the overlap that Algorithm 2 prints: one running sum of the chosen lines' largest
/// entries per direction is taken as every candidate's overlap, and the number of chosen lines of
/// the other direction as its covered cells.  It bounds the true overlap from above, so gains soon
/// vanish (none is below 0); kept as an ablation.  `covered` is what the rule believes.
LineSelection select_lines_by_bound(const SampledAttention& attention, double alpha);

}  // namespace turnbench
