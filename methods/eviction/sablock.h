#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// What SABlock keeps of one segment's tokens before the window, in blocks of neighbours.
struct SegmentBlocks {
  int block = 0;                    ///< tokens of a block; 0 if the segment keeps nothing
  std::vector<std::int32_t> slots;  ///< ascending
};

/// SABlock's choice in each segment of a layer that has cached tokens before the window, also where
/// its budget holds them all.  Ask for the first layer of a prompt first: it cuts the segments.
std::function<std::vector<SegmentBlocks>(const LayerView&)> sablock_blocks(
    const Parameters& parameters);

/// Indices of `count` scores, ascending: the blocks of `block` neighbours with the highest sums,
/// the last of them cut to its best scores.
std::vector<std::int32_t> in_blocks(std::span<const float> scores, int block, int count);

}  // namespace turnbench
