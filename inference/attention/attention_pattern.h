#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace turnbench {

/// Query rows per row block of a sparse prefill.  Blocks are aligned to the first row of the pass.
/// Also the length, in keys, of the runs that block kernels read (see Granularity::kBlock64).
constexpr int kPatternBlock = 64;

/// The (query, key) pairs that one query head computes in a prefill pass.  Rows i and keys j are
/// given by their positions in the dialogue.  The causal condition j <= i always applies, too.  The
/// attention output of a row without keys is zero.
struct HeadPattern {
  enum class Kind {
    kDense,
    /// A-shape: i - j < local or j < sinks.  Tri-shape: also all pairs of the last `dense_rows`
    /// rows.
    kBand,
    kVerticalSlash,  ///< j in `columns` or i - j in `offsets`
    kBlocks          ///< key blocks listed per row block
  };
  /// How `kVerticalSlash` is executed.  kLine: exactly these pairs.  kBlock64: the superset that
  /// MInference's block kernel computes for each 64 rows.
  enum class Granularity { kLine, kBlock64 };

  Kind kind = Kind::kDense;
  int sinks = 0, local = 0, dense_rows = 0;  // kBand
  std::vector<std::int32_t> columns = {};    // kVerticalSlash: ascending positions
  std::vector<std::int32_t> offsets = {};    // kVerticalSlash: ascending distances
  Granularity granularity = Granularity::kBlock64;
  int block_size = 0;                                  // kBlocks: keys per block of the BlockGrid
  int block_rows = kPatternBlock;                      // kBlocks: rows per list, a multiple of 64
  std::vector<std::vector<std::int32_t>> blocks = {};  // kBlocks: ascending key blocks of each list
};

/// A prefill pass: its rows have the positions [first_position, first_position + rows).
struct PatternPass {
  std::int32_t first_position = 0, rows = 0;
};

/// A grid of key blocks with a boundary at the first row of a pass, so that blocks on the diagonal
/// are whole.  Block 0 begins at position 0; it is shorter if the first row's position is not a
/// multiple of `size`.
struct BlockGrid {
  std::int32_t size, lead;
  BlockGrid(std::int32_t size, std::int32_t first_position)
      : size(size), lead((size - first_position % size) % size) {}
  std::int32_t block_of(std::int32_t key) const { return (key + lead) / size; }
  std::int32_t begin(std::int32_t block) const { return std::max(0, block * size - lead); }
  std::int32_t end(std::int32_t block) const { return (block + 1) * size - lead; }
};

/// True if the pair is computed: it is causal and in the pattern as executed (see Granularity).
bool pattern_contains(const HeadPattern& pattern, const PatternPass& pass, std::int32_t row,
                      std::int32_t key);

/// Finds the keys of row block `block`, the rows at positions first_position + 64 * block and
/// following.  `out` receives the ascending positions of all keys that some row of the block reads.
/// Returns true if some causal pairs of these rows and keys are not computed; use PatternMask to
/// find them.
bool pattern_keys(const HeadPattern& pattern, const PatternPass& pass, std::int32_t block,
                  std::vector<std::int32_t>& out);

/// Fast look-up of the pairs of one row block.  The pattern must outlive it.
class PatternMask {
 public:
  PatternMask(const HeadPattern& pattern, const PatternPass& pass, std::int32_t block);
  /// True if all causal pairs of the block's rows with the keys in [lowest, highest] are computed.
  bool contains_all(std::int32_t lowest, std::int32_t highest) const;
  /// True if a row of the block computes its pair with a key that `pattern_keys` returned.
  bool contains(std::int32_t row, std::int32_t key) const;

 private:
  const HeadPattern& pattern_;
  std::int32_t last_row_, first_dense_row_;
  bool line_exact_;
  std::vector<char> columns_, offsets_;  // flags by position and by distance
};

/// The number of pairs that the pattern computes, as executed.  Dense causal attention computes
/// rows * first_position + rows * (rows + 1) / 2 pairs.
std::int64_t pattern_pairs(const HeadPattern& pattern, const PatternPass& pass);

}  // namespace turnbench
