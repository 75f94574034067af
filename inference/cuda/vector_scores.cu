// Scores of vectors that each represent several tokens.

#include <vector>

#include "inference/cuda/score_rows.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {

void score_vectors(Context& context, float scale, std::span<const VectorScoreJob> jobs) {
  context.begin();
  std::vector<FloatRows> rows;
  for (const VectorScoreJob& job : jobs)
    rows.push_back({{job.q, job.out}, job.vectors.data, job.vectors.stride});
  score_all_rows(context, scale, rows);
}

}  // namespace turnbench::cuda
