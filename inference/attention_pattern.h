#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace turnbench {

/// Rows of a sparse prefill are computed in blocks of this many, aligned to the first row of the
/// pass; keys are claimed in runs of as many.
constexpr int kPatternBlock = 64;

/// Which (query, key) pairs of a prefill pass one query head computes.  Rows and keys are meant by
/// their positions in the dialogue; causality always applies on top.
struct HeadPattern {
  enum class Kind {
    kDense,
    kBand,  ///< i - j < local, or j < sinks, or row among the last `dense_rows` of the pass
    kVerticalSlash,  ///< j in `columns` or i - j in `offsets`
    kBlocks          ///< key blocks listed per row block
  };
  /// How `kVerticalSlash` is executed: each pair exactly, or the 64 x 64 superset of a block
  /// kernel.
  enum class Granularity { kLine, kBlock64 };

  Kind kind = Kind::kDense;
  int sinks = 0, local = 0, dense_rows = 0;  // kBand
  std::vector<std::int32_t> columns;         // kVerticalSlash: ascending positions
  std::vector<std::int32_t> offsets;         // kVerticalSlash: ascending distances
  Granularity granularity = Granularity::kBlock64;
  int block_size = 0;                             // kBlocks: keys per block, on the BlockGrid
  int block_rows = kPatternBlock;                 // kBlocks: rows per list, a multiple of 64
  std::vector<std::vector<std::int32_t>> blocks;  // kBlocks: ascending key blocks of each list
};

/// One pass: its rows stand at positions [first_position, first_position + rows).
struct PatternPass {
  std::int32_t first_position = 0, rows = 0;
};

/// Blocks of keys on a grid that has a line at the first row of a pass, so that blocks on the
/// diagonal are whole.  Block 0 begins at position 0 and is short if the pass begins off the grid.
struct BlockGrid {
  std::int32_t size, lead;
  BlockGrid(std::int32_t size, std::int32_t first_position)
      : size(size), lead((size - first_position % size) % size) {}
  std::int32_t block_of(std::int32_t key) const { return (key + lead) / size; }
  std::int32_t begin(std::int32_t block) const { return std::max(0, block * size - lead); }
  std::int32_t end(std::int32_t block) const { return (block + 1) * size - lead; }
};

/// Whether a pair is in the pattern as it is executed (causality included).
bool pattern_contains(const HeadPattern& pattern, const PatternPass& pass, std::int32_t row,
                      std::int32_t key);

/// The positions that the row block `block` (kPatternBlock rows from first_position + 64 * block)
/// reads, ascending, into `out`: the union over its rows.  Returns true if some pair inside that
/// rectangle may be left out by more than causality, so that the caller must ask a PatternMask.
bool pattern_keys(const HeadPattern& pattern, const PatternPass& pass, std::int32_t block,
                  std::vector<std::int32_t>& out);

/// The pairs of one row block, prepared so that asking costs little.  The pattern must outlive it.
class PatternMask {
 public:
  PatternMask(const HeadPattern& pattern, const PatternPass& pass, std::int32_t block);
  /// Whether every row of the block has all the keys in [lowest, highest] that causality grants it.
  bool contains_all(std::int32_t lowest, std::int32_t highest) const;
  /// Whether a row of the block has one of the keys that `pattern_keys` gives for it.
  bool contains(std::int32_t row, std::int32_t key) const;

 private:
  const HeadPattern& pattern_;
  std::int32_t last_row_, first_dense_row_;
  bool line_exact_;
  std::vector<char> columns_, offsets_;  // by position; by distance
};

/// Pairs computed by the pattern, as executed; the dense causal count is
/// rows * first_position + rows * (rows + 1) / 2.
std::int64_t pattern_pairs(const HeadPattern& pattern, const PatternPass& pass);

}  // namespace turnbench
