#pragma once

#include <vector>

#include "inference/policy.h"

namespace turnbench {

/// Element-wise sums and bounds of the vectors in each block: [blocks][head_dim].  A block without
/// vectors has count 0, sum 0 and bounds of infinite size.
struct BlockPool {
  int head_dim = 0;
  std::vector<int> count;
  std::vector<float> sum, low, high;

  BlockPool(int blocks, int head_dim);
  int blocks() const { return static_cast<int>(count.size()); }
  void add(int block, const float* vector);
  /// Sum over d of x[d] * row[block][d], where row is one of the three tables.
  double dot(const std::vector<float>& row, int block, const float* x) const;
  const float* at(const std::vector<float>& row, int block) const {
    return row.data() + static_cast<std::size_t>(block * head_dim);
  }
};

/// The cached keys of a set, in the blocks of `grid` up to position `end`.
BlockPool pool_keys(const KvHeadCache& set, const BlockGrid& grid, std::int32_t end);

/// One head's queries of a pass, `size` rows a block from the first row on.
BlockPool pool_queries(const LayerView& view, int head, int size);

}  // namespace turnbench
