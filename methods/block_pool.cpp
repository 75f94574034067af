#include "methods/block_pool.h"

#include <algorithm>
#include <limits>

namespace turnbench {

BlockPool::BlockPool(int blocks, int head_dim)
    : head_dim(head_dim), count(static_cast<std::size_t>(blocks)) {
  const auto size = static_cast<std::size_t>(blocks * head_dim);
  sum.assign(size, 0);
  low.assign(size, std::numeric_limits<float>::infinity());
  high.assign(size, -std::numeric_limits<float>::infinity());
}

void BlockPool::add(int block, const float* vector) {
  ++count[static_cast<std::size_t>(block)];
  const auto first = static_cast<std::size_t>(block * head_dim);
  for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim); ++d) {
    sum[first + d] += vector[d];
    low[first + d] = std::min(low[first + d], vector[d]);
    high[first + d] = std::max(high[first + d], vector[d]);
  }
}

double BlockPool::dot(const std::vector<float>& row, int block, const float* x) const {
  const float* y = at(row, block);
  double sum = 0;
  for (int d = 0; d < head_dim; ++d) sum += static_cast<double>(x[d]) * y[d];
  return sum;
}

BlockPool pool_keys(const KvHeadCache& set, const BlockGrid& grid, std::int32_t end) {
  const int head_dim = set.layout().head_dim;
  BlockPool out(grid.of(end - 1) + 1, head_dim);
  std::vector<float> key(static_cast<std::size_t>(head_dim));
  for (int slot = 0; slot < set.size() && set.position(slot) < end; ++slot) {
    set.read_key(slot, key.data());
    out.add(grid.of(set.position(slot)), key.data());
  }
  return out;
}

BlockPool pool_queries(const LayerView& view, int head, int size) {
  BlockPool out((view.rows + size - 1) / size, view.shape.head_dim);
  for (int r = 0; r < view.rows; ++r) out.add(r / size, view.stats.query(head, r).data());
  return out;
}

}  // namespace turnbench
