#pragma once

#include <cstdint>

#include "inference/model/dtype.h"

namespace turnbench {

/// The size of one forward pass.
struct PassSize {
  std::int64_t rows = 0;       ///< tokens of all sequences in this pass
  std::int64_t sequences = 0;  ///< sequences in this pass; each needs the logits of its last row
  std::int64_t total_context = 0;    ///< cached tokens after the pass, summed over sequences
  std::int64_t longest_context = 0;  ///< maximum over sequences
  bool pre_rope_keys = false;        ///< pre-RoPE keys are also stored
  Math math = Math::kF32;            ///< of the model with its cache (`with_cache`)
};

/// Rows per block of the linear layers: enough to amortise reading the weights, few enough that the
/// widest activation stays small.
constexpr std::int64_t kLinearBlockRows = 768;

}  // namespace turnbench
