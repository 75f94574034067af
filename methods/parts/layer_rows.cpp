#include "methods/parts/layer_rows.h"

#include <algorithm>

#include "methods/parts/scores.h"

namespace turnbench {

std::vector<const KvHeadCache*> caches_of(const LayerView& view, const KeptSet& set) {
  std::vector<const KvHeadCache*> out;
  for (int head = set.first_head; head < set.first_head + set.heads; ++head) {
    const KvHeadCache* cache = &cache_of_head(view, head);
    if (out.empty() || out.back() != cache) out.push_back(cache);
  }
  return out;
}

}  // namespace turnbench
