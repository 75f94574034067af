#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// Sampled rows of one head's attention matrix.  Cell (r, j) is the probability that the row at
/// position `rows[r]` gives the key at position `keys[j]`; 0 for keys behind the row.
struct SampledAttention {
  std::span<const std::int32_t> rows;  ///< positions, ascending
  std::span<const std::int32_t> keys;  ///< positions, ascending
  std::span<const float> cells;        ///< [rows][ld]
  std::size_t ld;                      ///< floats from one row to the next
  float at(std::size_t r, std::size_t j) const { return cells[r * ld + j]; }
};

struct LineSelection {
  std::vector<std::int32_t> offsets;  ///< slash lines (row - key), ascending
  std::vector<std::int32_t> columns;  ///< vertical lines (key positions), ascending
  double covered = 0;                 ///< probability mass on the chosen lines
  double total = 0;                   ///< probability mass in all
};

/// Greedy cover by slash and vertical lines until `alpha` of the mass is on them (LoopServe,
/// section 5.2, Algorithm 2).  Each direction offers its lines in the order of their whole weight;
/// at each step the line wins that gains more weight per cell, both counted without the cells that
/// chosen lines cover; slash wins ties.  Offset 0 is always chosen.  The sequence of choices does
/// not depend on alpha: a selection contains those of smaller alphas.
LineSelection select_lines(const SampledAttention& attention, double alpha);

/// The same with the overlap that Algorithm 2 prints.  For each direction it sums the largest entry
/// of each chosen line; that sum is the overlap of every candidate of the other direction, and the
/// number of chosen lines is its covered cells.  The sum is at least the true overlap, so gains
/// soon vanish (none is below 0); kept as an ablation.  `covered` is what the rule believes.
LineSelection select_lines_by_bound(const SampledAttention& attention, double alpha);

}  // namespace turnbench
