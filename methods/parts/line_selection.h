#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// Sampled rows of one head's attention matrix.  Cell (r, j) is the attention probability of the
/// row at position `rows[r]` for the key at position `keys[j]`; 0 for keys after the row.
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
  double total = 0;                   ///< total probability mass
};

/// Greedy cover by slash and vertical lines until they contain a share `alpha` of the mass
/// (LoopServe, section 5.2, Algorithm 2).  The candidates of each direction are its lines in
/// descending order of total weight.  Each step chooses, of the two candidates, the line that gains
/// more weight per cell, both counted without cells that chosen lines cover; slash wins ties.
/// Offset 0 is always chosen.  The order of choices does not depend on alpha, so a selection
/// contains those of smaller alphas.
LineSelection select_lines(const SampledAttention& attention, double alpha);

/// The same with the overlap as printed in Algorithm 2.  For each direction, the sum of the largest
/// entries of its chosen lines is taken as the overlap of every candidate of the other direction,
/// and the number of chosen lines as its number of covered cells.  The sum is at least the true
/// overlap, so gains (clamped to 0) soon vanish; kept as an ablation.  `covered` is the coverage by
/// this estimate.
LineSelection select_lines_by_bound(const SampledAttention& attention, double alpha);

}  // namespace turnbench
