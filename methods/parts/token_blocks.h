#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

// Both functions return the indices of `count` scores, ascending.  Ties go to the first block.

/// The blocks of `block` neighbours with the highest sums, the last block reduced to its best
/// scores.
std::vector<std::int32_t> in_blocks(std::span<const float> scores, int block, int count);

/// The chunks of `chunk` neighbours with the highest means, the last chunk reduced to its first
/// scores.
std::vector<std::int32_t> in_chunks(std::span<const float> scores, int chunk, int count);

}  // namespace turnbench
