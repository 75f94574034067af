#pragma once

#include <cstdint>
#include <vector>

#include "inference/model/matrix_view.h"

namespace turnbench {

/// Blends a step's attention output with a vector: weight * output + (1 - weight) * vector.  The
/// data are in the backend's memory and stay valid until the next `select` of the same layer.
struct Blend {
  const float* weights = nullptr;        ///< [query heads]; null: no blending
  MatrixView<const float> vectors = {};  ///< [sets, head_dim]
};

/// The slots that the attention of a layer reads: [lists][slots].  No lists: all slots are read.
/// There is either one list per set of the LayerView, or one list per query head, with slots of the
/// set that the head reads.  Slots ascend strictly and are below the set's size.  Lists may have
/// different lengths.  The last slot of every list must be the slot of the last query row.  In a
/// decode step, this is the slot of the current token, the last slot of its set.
struct Selection {
  std::vector<std::vector<std::int32_t>> slots;
  Blend blend = {};
  bool all() const { return slots.empty(); }
};

}  // namespace turnbench
