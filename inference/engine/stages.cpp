#include "inference/engine/stages.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>

namespace turnbench {

Stages::Stages(std::span<const std::int64_t> weights, std::size_t count) {
  const std::size_t layers = weights.size();
  assert(1 <= count && count <= layers);
  // best[n][end]: the best split of the first `end` layers into n stages: the weight of its
  // heaviest stage, the sum of squared weights (as tie-breaker, it prefers balanced splits), and
  // the first layer of the last stage.
  using Cut = std::tuple<std::int64_t, double, std::size_t>;
  constexpr Cut kNone{std::numeric_limits<std::int64_t>::max(), 0, 0};
  std::vector<std::vector<Cut>> best(count + 1, std::vector<Cut>(layers + 1, kNone));
  best[0][0] = {};
  for (std::size_t n = 1; n <= count; ++n) {
    for (std::size_t end = n; end <= layers; ++end) {
      std::int64_t last = 0;
      for (std::size_t first = end; first-- >= n;) {
        last += weights[first];
        const auto& [heaviest, squares, begin] = best[n - 1][first];
        const auto weight = static_cast<double>(last);
        best[n][end] =
            std::min(best[n][end], Cut{std::max(heaviest, last), squares + weight * weight, first});
      }
    }
  }
  first_.assign(count + 1, static_cast<int>(layers));
  for (std::size_t n = count, end = layers; n > 0; --n) {
    end = std::get<2>(best[n][end]);
    first_[n - 1] = static_cast<int>(end);
  }
}

std::size_t Stages::stage_of(int layer) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), layer);
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

}  // namespace turnbench
