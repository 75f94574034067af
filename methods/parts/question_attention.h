#pragma once

#include <cstdint>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The attention that rows of a question give to the tokens before a position, summed over the
/// rows, for each query head.
class QuestionAttention {
 public:
  bool empty() const { return sums_.empty(); }
  void clear() { sums_ = {}; }
  /// Adds rows [first, first + rows) of a view.  lse: log-sum-exp of the view's rows, [rows,
  /// heads]. end: one past the last position that counts; the same in all calls.
  void add(const LayerView& view, MatrixView<const float> lse, int first, int rows,
           std::int32_t end);
  /// Sets the sums to those of all rows of a prompt, whose slots equal positions.
  void set(const HeadScores& sums, int heads, std::int32_t end);
  /// Summed over the query heads: [end].
  std::vector<double> of_tokens(int heads) const;

 private:
  std::vector<float> sums_;  // [query heads, end]
};

}  // namespace turnbench
