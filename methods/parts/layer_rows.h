#pragma once

#include <span>
#include <vector>

#include "methods/parts/kept_sets.h"

namespace turnbench {

/// The cached sets that the query heads of a kept set read, each once.
std::vector<const KvHeadCache*> caches_of(const LayerView& view, const KeptSet& set);

/// A copy in host memory of keys or values of slots [first, end) of a cached set as float32, at the
/// end of a prompt, when the backend can read the set.
/// @throws Error (runtime) for slots outside the set, and for keys before RoPE that it does not
/// store (SelectionTraits::pre_rope_keys).
class RowsOnHost {
 public:
  RowsOnHost(const LayerView& view, const KvHeadCache& cache, KvRow row, int first, int end);

  int rows() const { return rows_; }
  int width() const { return width_; }  ///< head_dim
  std::span<const float> row(int i) const {
    return {data_.data() + static_cast<std::ptrdiff_t>(i) * width_,
            static_cast<std::size_t>(width_)};
  }

 private:
  std::vector<float> data_;
  int rows_, width_;
};

}  // namespace turnbench
