#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "inference/policy.h"

namespace turnbench {

/// Positions [begin, end).
struct Range {
  std::int32_t begin = 0, end = 0;
  int size() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
};

/// Sums over the attention matrices of one layer, of whose rows this pass holds some: computed when
/// asked and once however many probes ask, in tiles of 64 rows, in O(tokens) memory.  Attention is
/// dense and nothing was evicted: slot j holds position j.
class LayerSums {
 public:
  explicit LayerSums(const LayerView& view) : view_(view) {}

  const LayerView& view() const { return view_; }
  /// The rows of this pass.
  Range rows() const { return {view_.first_row, view_.first_row + view_.rows}; }

  /// The lines that `rows` reach by number, of each query head, heaviest first: vertical line j is
  /// number j, slash line o is number (vertical lines) + o.  The lower number first on ties.
  const std::vector<std::vector<std::int32_t>>& rankings(Range rows);

  /// What lines cover of all rows of this pass: curve[h][c] is the share of head h's mass that lies
  /// on the union of its c heaviest lines, c = 0 ... 2 x tokens.
  const std::vector<std::vector<double>>& coverage();

  /// What `rows` give to each token before `end`, summed over all query heads: [end].
  std::vector<double> columns(Range rows, int end);

 private:
  std::vector<double> cover(int head, std::span<const std::int32_t> order) const;

  const LayerView& view_;
  std::map<Range, std::vector<std::vector<std::int32_t>>> rankings_;
  std::map<Range, std::vector<double>> columns_;
  std::vector<std::vector<double>> coverage_;
};

}  // namespace turnbench
