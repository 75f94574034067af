#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// The tokens of one segment before the window that SABlock keeps, in blocks of neighbours.
struct SegmentBlocks {
  int block = 0;                    ///< tokens per block; 0 if no token of the segment is kept
  std::vector<std::int32_t> slots;  ///< ascending
};

/// SABlock's choice in each segment of a layer that has cached tokens before the window, even if
/// the budget suffices for all.  Must be called for the first layer of a prompt first, which
/// determines the segments.
std::function<std::vector<SegmentBlocks>(const LayerView&)> sablock_blocks(
    const Parameters& parameters);

}  // namespace turnbench
