#include "methods/parts/layer_rows.h"

#include <algorithm>

#include "common/error.h"
#include "methods/parts/scores.h"

namespace turnbench {

RowsOnHost::RowsOnHost(const LayerView& view, const KvHeadCache& cache, KvRow row, int first,
                       int end)
    : rows_(end - first), width_(view.shape.head_dim) {
  if (first < 0 || end < first || end > cache.size()) {
    throw runtime_error("layer {}: found rows of slots {} to {}, expected them from 0 to {}",
                        view.layer, first, end, cache.size());
  }
  if (row == KvRow::kPreRopeKey && !cache.layout().pre_rope_keys) {
    throw runtime_error(
        "layer {}: found keys before RoPE in a cache that has none, expected a policy that "
        "declares pre_rope_keys",
        view.layer);
  }
  data_ = view.backend->rows_on_host(cache, row, first, end);
}

std::vector<const KvHeadCache*> caches_of(const LayerView& view, const KeptSet& set) {
  std::vector<const KvHeadCache*> out;
  for (int head = set.first_head; head < set.first_head + set.heads; ++head) {
    const KvHeadCache* cache = &cache_of_head(view, head);
    if (out.empty() || out.back() != cache) out.push_back(cache);
  }
  return out;
}

}  // namespace turnbench
