#pragma once

#include <cstdint>
#include <memory>
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
    kBand,   ///< i - j < local, or j < sinks, or row among the last `dense_rows` of the pass
    kLines,  ///< j in `columns` or i - j in `offsets`
    kBlocks  ///< key blocks listed per row block
  };
  /// How `kLines` is executed: each pair exactly, or the 64 x 64 superset of a block kernel.
  enum class Granularity { kLine, kBlock64 };

  Kind kind = Kind::kDense;
  int sinks = 0, local = 0, dense_rows = 0;  // kBand
  std::vector<std::int32_t> columns;         // kLines: ascending positions
  std::vector<std::int32_t> offsets;         // kLines: ascending distances
  Granularity granularity = Granularity::kBlock64;
  int block_size = 0;                             // kBlocks
  std::vector<std::vector<std::int32_t>> blocks;  // kBlocks: per row block, ascending key blocks
};

/// One pass: its rows stand at positions [first_row, first_row + rows).
struct PatternPass {
  std::int32_t first_row = 0, rows = 0;
};

/// Whether a pair is in the pattern as it is executed (causality included).
bool pattern_has(const HeadPattern& pattern, const PatternPass& pass, std::int32_t row,
                 std::int32_t key);

/// The positions that the row block `block` (kPatternBlock rows from first_row + 64 * block) reads,
/// ascending, into `out`: the union over its rows.  Returns true if some pair inside that rectangle
/// is left out by more than causality, so that the caller must ask `pattern_has`.
bool pattern_keys(const HeadPattern& pattern, const PatternPass& pass, std::int32_t block,
                  std::vector<std::int32_t>& out);

/// Pairs computed by the pattern, as executed; the dense causal count is
/// rows * first_row + rows * (rows + 1) / 2.
std::int64_t pattern_pairs(const HeadPattern& pattern, const PatternPass& pass);

}  // namespace turnbench
