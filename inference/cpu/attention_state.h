#pragma once

// Data of the attention kernels, shared by all instruction sets: tiles of keys, strips of query
// rows, softmax state, and their layout in scratch memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "inference/cpu/bf16_product.h"
#include "inference/kv/kv_cache.h"
#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

constexpr int kTile = kPageTokens;
constexpr int kSegmentTiles = 16;             ///< tiles per segment; segments are merged in order
constexpr int kStripRows = 64;                ///< query rows that are computed together
constexpr int kNoisyRows = 48;                ///< rows with Gumbel noise that are computed together
constexpr int kNoisyFloats = kNoisyRows + 3;  ///< floats of scratch per slot for these rows
/// Maximal number of floats of packed keys and values at a time, unless a single set needs more.
/// Chosen to fit the outer caches.
constexpr std::int64_t kPackedFloats = 8 << 20;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// The number of tiles of `slots` slots.
constexpr int tiles_of(int slots) {
  return (slots + kTile - 1) / kTile;
}

/// Stride of rows of weights over `slots` slots, in floats.  Not a power of two, to avoid conflicts
/// in the caches.
constexpr std::int64_t weight_row_floats(int slots) {
  return std::int64_t{tiles_of(slots)} * kTile + 16;
}

/// `n` rounded up to 16, the floats of the widest vector.  Rows of values have padded(head_dim)
/// floats, rows of scores the padded number of keys.
constexpr int padded(int n) {
  return (n + 15) / 16 * 16;
}

/// Up to 64 keys and values in the layout of the matrix products.
struct Tile {
  const float* kt;                ///< transposed keys, [head_dim, 64]
  MatrixView<const float> v;      ///< values, [count, padded(head_dim)]
  const std::int32_t* positions;  ///< [count]
  int count;
};

/// The same for products of bf16.
struct Bf16Tile {
  PairedView keys;                ///< [64, head_dim]; keys beyond `count` repeat the last one
  PairedView values;              ///< transposed, [padded(head_dim), 64]
  const std::int32_t* positions;  ///< [count]
  int count;
};

/// Up to 64 query rows of one head that are computed together.
struct Strip {
  MatrixView<const float> q;      ///< [rows, head_dim]
  const std::int32_t* positions;  ///< [rows]
  std::int64_t rows() const { return q.rows; }
};

/// The same for products of bf16.
struct Bf16Strip {
  RoundedRows q;  ///< [rows, head_dim]
  std::int64_t count;
  const std::int32_t* positions;  ///< [rows]
  RoundedRows weights;            ///< scratch, [rows, 64]
  std::int64_t rows() const { return count; }
};

/// Online softmax of some rows: maximum m [rows] of the scaled scores, and relative to it the sum l
/// [rows] of the exponentials and the weighted values acc [rows, width].
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

/// Allocates arrays from one float buffer, one after the other, in whole cache lines.
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

/// What the factors of products are, and with it the form of packed tiles.
enum class Factors : std::uint8_t { kF32, kBF16 };

/// The keys of a packed tile, and its values, in floats.
constexpr std::int64_t tile_key_floats(int head_dim, Factors factors) {
  return factors == Factors::kF32 ? kTile * head_dim
                                  : PairedView{nullptr, kTile, head_dim}.size() / 2;
}
constexpr std::int64_t tile_value_floats(int head_dim, Factors factors) {
  return factors == Factors::kF32 ? kTile * padded(head_dim) : kTile * padded(head_dim) / 2;
}

/// Size of a packed tile, in floats: keys, values, positions.
constexpr std::int64_t tile_floats(int head_dim, Factors factors) {
  return tile_key_floats(head_dim, factors) + tile_value_floats(head_dim, factors) + kTile;
}

/// Scratch of a task with `rows` rows, summed over its heads, in floats.
inline std::int64_t task_floats(int head_dim, std::int64_t rows, Factors factors) {
  const std::int64_t scores = std::max<std::int64_t>(kStripRows, rows);
  std::int64_t out = tile_floats(head_dim, factors) + scores * kTile +
                     2 * SoftmaxState::floats(rows, padded(head_dim)) + 16 * 16;
  if (factors == Factors::kBF16) {
    out += RoundedRows::floats(rows + kStripRows, head_dim, Bf16Unit::kMultiplyAdd) +
           RoundedRows::floats(scores, kTile, Bf16Unit::kMultiplyAdd);
  }
  return out;
}

/// The packed tiles of one set in a buffer, tile after tile.
struct PackedSet {
  float *keys, *values;     ///< of each tile `tile_key_floats` and `tile_value_floats`
  std::int32_t* positions;  ///< [tiles, 64]

  static std::int64_t floats(const KvHeadCache& set, Factors factors) {
    return tiles_of(set.size()) * tile_floats(set.layout().head_dim, factors);
  }
  static PackedSet in(float* memory, const KvHeadCache& set, Factors factors) {
    const std::int64_t tiles = tiles_of(set.size());
    const int head_dim = set.layout().head_dim;
    float* values = memory + tiles * tile_key_floats(head_dim, factors);
    return {memory, values,
            reinterpret_cast<std::int32_t*>(values + tiles * tile_value_floats(head_dim, factors))};
  }
};

}  // namespace turnbench::cpu
