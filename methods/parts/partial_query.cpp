#include "methods/parts/partial_query.h"

#include <algorithm>
#include <cmath>

#include "inference/backend/backend.h"
#include "methods/parts/scores.h"

namespace turnbench {

std::vector<PartialQuery> partial_queries(const LayerView& view, int dims) {
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  std::vector<float> all(static_cast<std::size_t>(view.shape.heads * dim));
  view.backend->memory()->copy_floats(view.queries.data, all.data(), all.size());
  std::vector<PartialQuery> out;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const MatrixView<const float> q(all.data() + static_cast<std::int64_t>(s) * heads * dim, heads,
                                    dim);
    std::vector<float> sums(static_cast<std::size_t>(dim));
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t d = 0; d < dim; ++d) sums[d] += std::abs(q(h, d));
    }
    PartialQuery& query = out.emplace_back();
    query.rows.assign(q.data, q.data + heads * dim);
    for (const std::int32_t d : top_k(sums, std::min(dims, static_cast<int>(dim))))
      query.dims.push_back(d);
    for (std::int64_t h = 0; h < heads; ++h) {
      double chosen = 0, whole = 0;
      for (const int d : query.dims) chosen += std::abs(q(h, d));
      for (std::int64_t d = 0; d < dim; ++d) whole += std::abs(q(h, d));
      // A query that is zero in these dimensions has zero scores for any factor.
      query.factors.push_back(chosen == 0 ? 1.0f : static_cast<float>(std::sqrt(whole / chosen)));
    }
  }
  return out;
}

}  // namespace turnbench
