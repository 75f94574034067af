#pragma once

#include <cstddef>

namespace turnbench {

/// The size of one forward pass of any number of sequences.
struct PassSize {
  std::size_t rows = 0;        ///< of all sequences
  std::size_t sequences = 0;   ///< each wants the logits of its last row
  std::size_t context = 0;     ///< cached tokens when the pass ends, of all sequences
  std::size_t longest = 0;     ///< of one of them
  bool pre_rope_keys = false;  ///< keys before RoPE are kept too
};

/// Rows that go through the linear layers at a time: enough to amortise the walk over the weights,
/// few enough that the widest activation stays small.
constexpr std::size_t kActivationRows = 768;

}  // namespace turnbench
