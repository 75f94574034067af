#pragma once

// What the attention kernels of every instruction set share: tiles, strips, softmax state and their
// places in scratch memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "inference/kv_cache.h"
#include "inference/matrix_view.h"

namespace turnbench::cpu {

constexpr int kTile = kPageTokens;
constexpr int kSegmentTiles = 16;  ///< softmax state is merged every so many tiles, in order
constexpr int kStripRows = 64;     ///< query rows that go through the tiles together
constexpr int kNoisyRows = 48;     ///< rows under noise whose weights are at hand together
constexpr int kNoisyFloats = kNoisyRows + 3;  ///< what they need for each slot
/// Packed keys and values that attention holds at a time, unless one set alone needs more: what is
/// worth keeping in the outer caches.
constexpr std::int64_t kPackedFloats = 8 << 20;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Tiles that hold `slots` slots.
constexpr int tiles_of(int slots) {
  return (slots + kTile - 1) / kTile;
}

/// Floats from one row of weights of all slots to the next: no power of two, for the cache's sake.
constexpr std::int64_t weight_row_floats(int slots) {
  return std::int64_t{tiles_of(slots)} * kTile + 16;
}

/// A multiple of 16, so of the vectors of any instruction set: rows of values are as long as
/// padded(head_dim), products as wide as the padded count of keys.
constexpr int padded(int n) {
  return (n + 15) / 16 * 16;
}

/// Up to 64 keys, ready for products.
struct Tile {
  const float* kt;                ///< transposed keys, [head_dim, 64]
  MatrixView<const float> v;      ///< values, [count, padded(head_dim)]
  const std::int32_t* positions;  ///< [count]
  int count;
};

/// Query rows of one head that go through the tiles together, at most 64.
struct Strip {
  MatrixView<const float> q;      ///< [rows, head_dim]
  const std::int32_t* positions;  ///< [rows]
};

/// Running softmax of some rows: maximum m [rows] and sum l [rows] of the scaled scores, weighted
/// values acc [rows, width], relative to the maximum.
struct SoftmaxState {
  float *m, *l;
  MatrixView<float> acc;

  static constexpr std::int64_t floats(std::int64_t rows, std::int64_t width) {
    return rows * (width + 2);
  }
  static SoftmaxState in(float* memory, std::int64_t rows, std::int64_t width) {
    return {memory, memory + rows, {memory + 2 * rows, rows, width}};
  }
  void clear() const {
    std::fill_n(m, acc.rows, kMasked);
    std::fill_n(l, acc.rows, 0.0f);
    std::fill_n(acc.data, acc.rows * acc.columns, 0.0f);
  }
};

/// BumpAllocator allocation from one float buffer, in whole cache lines.
class BumpAllocator {
 public:
  explicit BumpAllocator(float* memory) : next_(memory) {}
  float* floats(std::int64_t n) {
    float* out = next_;
    next_ += (n + 15) / 16 * 16;
    return out;
  }
  std::int32_t* ints(std::int64_t n) { return reinterpret_cast<std::int32_t*>(floats(n)); }

 private:
  float* next_;
};

/// Floats of a packed tile: keys, values, positions.
constexpr std::int64_t tile_floats(int head_dim) {
  return kTile * (head_dim + padded(head_dim) + 1);
}

/// Floats of scratch of a task that takes `rows` rows (of all its heads) through the tiles.
constexpr std::int64_t task_floats(int head_dim, std::int64_t rows) {
  return tile_floats(head_dim) + std::max<std::int64_t>(kStripRows, rows) * kTile +
         2 * SoftmaxState::floats(rows, padded(head_dim)) + 16 * 16;
}

/// Where the packed tiles of one set stand in a shared buffer, one after the other.
struct PackedSet {
  float* kt;                ///< of each tile [head_dim, 64]
  float* v;                 ///< of each tile [64, padded(head_dim)]
  std::int32_t* positions;  ///< of each tile [64]

  static std::int64_t floats(const KvHeadCache& set) {
    return tiles_of(set.size()) * tile_floats(set.layout().head_dim);
  }
  static PackedSet in(float* memory, const KvHeadCache& set) {
    const int head_dim = set.layout().head_dim;
    const std::int64_t keys = std::int64_t{tiles_of(set.size())} * kTile;
    float* v = memory + keys * head_dim;
    return {memory, v, reinterpret_cast<std::int32_t*>(v + keys * padded(head_dim))};
  }
};

}  // namespace turnbench::cpu
