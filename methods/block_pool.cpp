#include "methods/block_pool.h"

#include <algorithm>
#include <limits>

namespace turnbench {

BlockPool::BlockPool(int blocks, int head_dim)
    : head_dim_(head_dim), count_(static_cast<std::size_t>(blocks)) {
  const auto size = static_cast<std::size_t>(blocks * head_dim);
  sum_.assign(size, 0);
  min_.assign(size, std::numeric_limits<float>::infinity());
  max_.assign(size, -std::numeric_limits<float>::infinity());
}

void BlockPool::add(int block, const float* vector) {
  ++count_[static_cast<std::size_t>(block)];
  const auto first = static_cast<std::size_t>(block * head_dim_);
  for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim_); ++d) {
    sum_[first + d] += vector[d];
    min_[first + d] = std::min(min_[first + d], vector[d]);
    max_[first + d] = std::max(max_[first + d], vector[d]);
  }
}

BlockPool pool_keys(const KvHeadCache& set, const BlockGrid& grid, std::int32_t end) {
  const int head_dim = set.layout().head_dim;
  BlockPool out(grid.block_of(end - 1) + 1, head_dim);
  std::vector<float> key(static_cast<std::size_t>(head_dim));
  for (int slot = 0; slot < set.size() && set.position(slot) < end; ++slot) {
    set.read_key(slot, key.data());
    out.add(grid.block_of(set.position(slot)), key.data());
  }
  return out;
}

BlockPool pool_queries(const LayerView& view, int head, int size) {
  BlockPool out((view.rows + size - 1) / size, view.shape.head_dim);
  for (int r = 0; r < view.rows; ++r) out.add(r / size, view.stats.query(head, r).data());
  return out;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

}  // namespace turnbench
