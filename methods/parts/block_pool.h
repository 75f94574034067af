#pragma once

#include <functional>
#include <span>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// Keys or queries pooled in blocks: element-wise sum, minimum and maximum of the vectors of each
/// block, each [head_dim].
class BlockPool {
 public:
  BlockPool(int blocks, int head_dim);

  void add(int block, const float* vector);

  int head_dim() const { return head_dim_; }
  int blocks() const { return static_cast<int>(count_.size()); }
  /// The number of vectors in a block.  If it is 0 (all evicted), the sum is 0 and the bounds are
  /// infinite.
  int count(int block) const { return count_[block]; }
  std::span<const float> sum(int block) const { return row(sum_, block); }
  std::span<const float> min(int block) const { return row(min_, block); }
  std::span<const float> max(int block) const { return row(max_, block); }

 private:
  std::span<const float> row(const std::vector<float>& table, int block) const {
    return std::span(table).subspan(block * head_dim_, head_dim_);
  }

  int head_dim_;
  std::vector<int> count_;              // [blocks]
  std::vector<float> sum_, min_, max_;  // [blocks][head_dim]
};

/// Calls read(position, key) for the cached keys of a set (after RoPE) before position `end`.  key:
/// [head_dim], valid during the call.
void for_each_key(Backend& backend, const KvHeadCache& set, std::int32_t end,
                  const std::function<void(std::int32_t position, const float* key)>& read);

/// Pools the cached keys of a set (after RoPE) in the blocks of `grid` up to position `end`.
BlockPool pool_keys(Backend& backend, const KvHeadCache& set, const BlockGrid& grid,
                    std::int32_t end);

/// Pools one head's queries of a pass (after RoPE), `size` rows per block from the pass's first row
/// on.
BlockPool pool_queries(const LayerView& view, int head, int size);

/// Dot product of two vectors [head_dim], summed in double precision.
double dot(std::span<const float> a, std::span<const float> b);

}  // namespace turnbench
