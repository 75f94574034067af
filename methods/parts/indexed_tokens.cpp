#include "methods/parts/indexed_tokens.h"

#include <algorithm>

namespace turnbench {

void IndexedTokens::end_prompt(const LayerView& view) {
  *this = IndexedTokens(unit_);
  for (const KvHeadCache& set : view.sets) prompt_.push_back(set.size());
}

void IndexedTokens::begin_step(const LayerView& view) {
  for (std::size_t s = 0; s < view.sets.size(); ++s)
    stale_ |= view.sets[s].size() - prompt_[s] != view.generated;
}

std::int64_t IndexedTokens::own_units(const LayerView& view) const {
  std::int64_t out = 0;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const int units = (view.sets[s].size() + unit_ - 1) / unit_;
    out = std::max<std::int64_t>(out, units - first_own(s));
  }
  return out;
}

std::vector<int> IndexedTokens::extend(const LayerView& view, bool restart) {
  std::vector<int>& covered = covered_.value;
  restart |= stale_ || covered.empty();
  for (std::size_t s = 0; s < view.sets.size() && !restart; ++s)
    restart = covered[s] != view.sets[s].size() - 1;
  std::vector<int> first;
  for (std::size_t s = 0; s < view.sets.size(); ++s)
    first.push_back(restart ? first_own(s) * unit_ : covered[s]);
  covered.clear();
  for (const KvHeadCache& set : view.sets) covered.push_back(set.size());
  return first;
}

}  // namespace turnbench
