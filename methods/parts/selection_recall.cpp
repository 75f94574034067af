#include "methods/parts/selection_recall.h"

#include <algorithm>
#include <iterator>

#include "methods/parts/scores.h"

namespace turnbench {

double selection_recall(const LayerView& view, const Selection& selection) {
  if (selection.all()) return 1;
  const HeadScores& attention = view.stats.window_mass(1);  // [query heads, n]
  const auto lists = std::ssize(selection.slots);
  double sum = 0;
  for (int h = 0; h < view.shape.heads; ++h) {
    const auto& read = selection.slots[h * lists / view.shape.heads];
    const int n = cache_of_head(view, h).size();
    const std::span<const float> scores = attention.head(h, n);
    std::vector<std::int32_t> best = top_k(scores, static_cast<int>(read.size()));
    std::erase_if(best, [&](std::int32_t j) { return scores[j] == 0; });
    std::vector<std::int32_t> both;
    std::set_intersection(best.begin(), best.end(), read.begin(), read.end(),
                          std::back_inserter(both));
    sum += static_cast<double>(both.size()) / static_cast<double>(best.size());
  }
  return sum / view.shape.heads;
}

}  // namespace turnbench
