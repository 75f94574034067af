#pragma once

// What the attention kernels of every instruction set share: tiles, strips, softmax state and their
// places in scratch memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "inference/kv_cache.h"

namespace turnbench::cpu {

constexpr int kTile = kPageTokens;
constexpr int kSegmentTiles = 16;  ///< softmax state is merged every so many tiles, in order
constexpr int kStripRows = 64;     ///< query rows that go through the tiles together
constexpr int kNoisyRows = 48;     ///< rows under noise whose weights are at hand together
constexpr std::size_t kNoisyFloats = kNoisyRows + 3;  ///< what they need for each slot
/// Packed keys and values that attention holds at a time, unless one set alone needs more: what is
/// worth keeping in the outer caches.
constexpr std::size_t kPackedFloats = std::size_t{8} << 20;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

constexpr int tiles_of(int slots) {
  return (slots + kTile - 1) / kTile;
}

/// Floats from one row of weights of all slots to the next: no power of two, for the cache's sake.
constexpr std::size_t weight_row_floats(int slots) {
  return static_cast<std::size_t>(tiles_of(slots)) * kTile + 16;
}

/// Rows of values are padded to whole vectors of any instruction set.
constexpr std::size_t padded(int head_dim) {
  return (static_cast<std::size_t>(head_dim) + 15) / 16 * 16;
}

/// Up to 64 keys, ready for products: kt [head_dim][64], v rows `ldv` apart.
struct Tile {
  const float* kt;
  const float* v;
  std::size_t ldv;
  const std::int32_t* positions;
  int count;
};

/// Query rows of one head (or of several heads at one position) that go through the tiles together.
struct Strip {
  const float* q;
  std::size_t q_stride;
  const std::int32_t* positions;
  int position_step;  ///< 0 if all rows stand at positions[0]
  int rows;           ///< at most 64
  std::int32_t position(int r) const { return positions[r * position_step]; }
};

/// Running softmax of some rows: maximum m, sum l, weighted values acc [rows][width].
struct SoftmaxState {
  float *m, *l, *acc;
  std::size_t width;

  static constexpr std::size_t floats(std::size_t rows, std::size_t width) {
    return rows * (width + 2);
  }
  static SoftmaxState in(float* memory, std::size_t rows, std::size_t width) {
    return {memory, memory + rows, memory + 2 * rows, width};
  }
  void clear(std::size_t rows) const {
    std::fill_n(m, rows, kMasked);
    std::fill_n(l, rows, 0.0f);
    std::fill_n(acc, rows * width, 0.0f);
  }
};

/// Bump allocation from one float buffer, in whole cache lines.
class Bump {
 public:
  explicit Bump(float* memory) : next_(memory) {}
  float* floats(std::size_t n) {
    float* out = next_;
    next_ += (n + 15) / 16 * 16;
    return out;
  }
  std::int32_t* ints(std::size_t n) { return reinterpret_cast<std::int32_t*>(floats(n)); }

 private:
  float* next_;
};

/// Room for a packed tile: keys, values, positions.
constexpr std::size_t tile_floats(int head_dim) {
  return kTile * (static_cast<std::size_t>(head_dim) + padded(head_dim) + 1);
}

/// Scratch of a task that takes `rows` rows (of all its heads) through the tiles.
constexpr std::size_t task_floats(int head_dim, std::size_t rows) {
  return tile_floats(head_dim) + std::max<std::size_t>(kStripRows, rows) * kTile +
         2 * SoftmaxState::floats(rows, padded(head_dim)) + 16 * 16;
}

/// Where the packed tiles of one set stand in a shared buffer.
struct PackedSet {
  float *kt, *v;
  std::int32_t* positions;

  static std::size_t floats(const KvHeadCache& set) {
    return static_cast<std::size_t>(tiles_of(set.size())) * tile_floats(set.layout().head_dim);
  }
  static PackedSet in(float* memory, const KvHeadCache& set) {
    const auto keys = static_cast<std::size_t>(tiles_of(set.size())) * kTile;
    float* v = memory + keys * static_cast<std::size_t>(set.layout().head_dim);
    return {memory, v, reinterpret_cast<std::int32_t*>(v + keys * padded(set.layout().head_dim))};
  }
};

}  // namespace turnbench::cpu
