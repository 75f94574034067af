#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// Positions [begin, end).
struct PositionRange {
  std::int32_t begin = 0, end = 0;
  int size() const { return end - begin; }
  auto operator<=>(const PositionRange&) const = default;
};

/// Sums over the attention matrices of one layer, for the rows of the current pass.  Each sum is
/// computed on first use and then reused, in tiles of 64 rows and O(tokens) memory.
/// Attention must be dense and nothing evicted: slot j holds position j.  `view` must outlive it.
class LayerSums {
 public:
  explicit LayerSums(const LayerView& view) : view_(view) {}

  const LayerView& view() const { return view_; }
  /// The rows of this pass, as positions.
  PositionRange rows() const { return {view_.first_position, view_.first_position + view_.rows}; }

  /// For each query head, the lines that `rows` reach, by descending mass.  Vertical line j has
  /// number j, slash line o has number (vertical lines) + o.  On ties the lower number comes first.
  const std::vector<std::vector<std::int32_t>>& ranked_lines(PositionRange rows);

  /// coverage[h][c]: the share of head h's attention mass, over all rows of this pass, that lies on
  /// the union of its c heaviest lines; c = 0 ... 2 x tokens.
  const std::vector<std::vector<double>>& coverage();

  /// The attention that `rows` give to each token before `end`, summed over all query heads: [end].
  std::vector<double> column_mass(PositionRange rows, int end);

 private:
  std::vector<double> cover(int head, std::span<const std::int32_t> order) const;

  const LayerView& view_;
  std::map<PositionRange, std::vector<std::vector<std::int32_t>>> rankings_;
  std::map<PositionRange, std::vector<double>> columns_;
  std::vector<std::vector<double>> coverage_;
};

}  // namespace turnbench
