#pragma once

#include <cstdint>

namespace turnbench {

/// The size of one forward pass of any number of sequences.
struct PassSize {
  std::int64_t rows = 0;             ///< of all sequences
  std::int64_t sequences = 0;        ///< each wants the logits of its last row
  std::int64_t total_context = 0;    ///< cached tokens when the pass ends, of all sequences
  std::int64_t longest_context = 0;  ///< of one of them
  bool pre_rope_keys = false;        ///< keys before RoPE are kept too
};

/// Rows that go through the linear layers at a time: enough to amortise the walk over the weights,
/// few enough that the widest activation stays small.
constexpr std::int64_t kLinearBlockRows = 768;

}  // namespace turnbench
