#pragma once

#include <cstdint>
#include <vector>

#include "inference/model/matrix_view.h"

namespace turnbench {

/// What attention of a step is blended with: weight * attention + (1 - weight) * vector.  The data
/// are in the backend's memory and stay until the policy is asked for the same layer again.
struct Blend {
  const float* weights = nullptr;        ///< [query heads]; null: attention stays what it is
  MatrixView<const float> vectors = {};  ///< [sets, head_dim]
};

/// The slots that attention of a layer reads: [lists][slots].  No lists: everything is read.  Lists
/// and slots are as in KeepSets.  The last slot of every list must be that of the last row that the
/// selection is made for: in decode steps that of the current token, the last one of its set.
struct Selection {
  std::vector<std::vector<std::int32_t>> slots;
  Blend blend = {};
  bool all() const { return slots.empty(); }
};

}  // namespace turnbench
