#include "inference/policy/joint_selection.h"

#include "inference/backend/backend.h"

namespace turnbench {

void SelectionJobs::run(Backend& backend, float scale) const {
  if (!keys.empty()) backend.score_keys(scale, keys);
  if (!pages.empty()) backend.score_pages(scale, pages);
  if (!vectors.empty()) backend.score_vectors(scale, vectors);
  if (!codes.empty()) backend.score_codes(scale, codes);
  if (!dimensions.empty()) backend.score_dimensions(scale, dimensions);
  if (!reductions.empty()) backend.reduce_heads(reductions);
  if (!choices.empty()) backend.top_k(choices);
}

}  // namespace turnbench
