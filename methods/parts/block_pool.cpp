#include "methods/parts/block_pool.h"

#include <algorithm>
#include <limits>

namespace turnbench {

BlockPool::BlockPool(int blocks, int head_dim) : head_dim_(head_dim), count_(blocks) {
  const auto size = static_cast<std::size_t>(blocks * head_dim);
  sum_.assign(size, 0);
  min_.assign(size, std::numeric_limits<float>::infinity());
  max_.assign(size, -std::numeric_limits<float>::infinity());
}

void BlockPool::add(int block, const float* vector) {
  ++count_[block];
  const auto first = static_cast<std::size_t>(block * head_dim_);
  for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim_); ++d) {
    sum_[first + d] += vector[d];
    min_[first + d] = std::min(min_[first + d], vector[d]);
    max_[first + d] = std::max(max_[first + d], vector[d]);
  }
}

void for_each_key(Backend& backend, const KvHeadCache& set, std::int32_t end,
                  const std::function<void(std::int32_t position, const float* key)>& read) {
  constexpr int kAtOnce = 1024;  // slots
  const int head_dim = set.layout().head_dim, slots = set.lower_bound(end);
  for (int first = 0; first < slots; first += kAtOnce) {
    const int last = std::min(slots, first + kAtOnce);
    const std::vector<float> keys = backend.rows_on_host(set, KvRow::kKey, first, last);
    for (int slot = first; slot < last; ++slot)
      read(set.position(slot), keys.data() + (slot - first) * head_dim);
  }
}

BlockPool pool_keys(Backend& backend, const KvHeadCache& set, const BlockGrid& grid,
                    std::int32_t end) {
  BlockPool out(grid.block_of(end - 1) + 1, set.layout().head_dim);
  for_each_key(backend, set, end, [&](std::int32_t position, const float* key) {
    out.add(grid.block_of(position), key);
  });
  return out;
}

BlockPool pool_queries(const LayerView& view, int head, int size) {
  BlockPool out((view.rows + size - 1) / size, view.shape.head_dim);
  const std::vector<float> queries = view.stats.queries(head, 0, view.rows);
  for (int r = 0; r < view.rows; ++r)
    out.add(r / size, queries.data() + static_cast<std::ptrdiff_t>(r) * view.shape.head_dim);
  return out;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

}  // namespace turnbench
