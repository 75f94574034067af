#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// What SABlock keeps of one segment: tokens before the window, in blocks of `block` neighbours.
struct SegmentBlocks {
  int block = 0;  ///< 0 if it keeps nothing
  std::vector<std::int32_t> slots;
};

/// SABlock's choice in each segment of a layer that has cached tokens before the window, also where
/// its budget holds them all.  To be asked layer by layer, the first one first.
std::function<std::vector<SegmentBlocks>(const LayerView&)> sablock_blocks(
    const Parameters& parameters);

/// `count` places in the blocks of `block` neighbours with the highest sums, ascending; the last
/// block gives its best ones.
std::vector<std::int32_t> in_blocks(std::span<const float> scores, int block, int count);

}  // namespace turnbench
