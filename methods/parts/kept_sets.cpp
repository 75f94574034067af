#include "methods/parts/kept_sets.h"

namespace turnbench {

std::vector<KeptSet> kept_sets(const LayerView& view, bool per_query_head) {
  const auto cached = view.sets.size();
  const auto count = per_query_head ? static_cast<std::size_t>(view.shape.heads) : cached;
  const int heads = view.shape.heads / static_cast<int>(count);
  std::vector<KeptSet> out;
  for (std::size_t i = 0; i < count; ++i) {
    const KvHeadCache& cache = view.sets[i * cached / count];
    out.push_back({static_cast<int>(i) * heads, heads, cache.size(), &cache});
  }
  return out;
}

KeptSet whole_layer(const LayerView& view) {
  return {0, view.shape.heads, view.sets[0].size(), view.sets.data()};
}

}  // namespace turnbench
