#pragma once

#include <cstdint>

namespace turnbench::cuda {

/// The number of blocks of a grid with `per_block` of `items` items each.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace turnbench::cuda
