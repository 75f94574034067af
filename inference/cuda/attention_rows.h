#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "inference/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

constexpr int kTileKeys = kPageTokens;  ///< keys of a tile
constexpr int kEverywhere = std::numeric_limits<std::int32_t>::max();

/// A HeadPattern as kernels see it.  Its lists are parts of one array of integers.
struct PatternView {
  HeadPattern::Kind kind;
  bool lines_exact;               ///< kVerticalSlash by line
  std::int32_t sinks, local;      ///< kBand
  std::int32_t first_dense_row;   ///< kBand: the first dense row
  std::int32_t block_size, lead;  ///< kBlocks: the BlockGrid
  std::int32_t block_rows;        ///< kBlocks: rows per list
  const std::int32_t* columns;    ///< kVerticalSlash
  int column_count;
  const std::int32_t* offsets;  ///< kVerticalSlash
  int offset_count;
  /// kVerticalSlash by line: bit i % 32 of word i / 32 is set for column, or offset, i.
  const std::uint32_t *column_bits, *offset_bits;
  const std::int32_t* blocks;  ///< kBlocks: all lists, one after the other
  const std::int32_t* lists;   ///< kBlocks: where list i begins in `blocks`, and its end
};

/// An AttentionJob as kernels see it.
struct RowsJob {
  SetView keys;
  const float* q;
  float *out, *lse;
  std::int64_t q_stride, out_stride, lse_stride;
  const std::int32_t* positions;  ///< of the rows
  int rows, heads;
  int reach;  ///< a row sees the keys less than `reach` behind it
  const PatternView* patterns;
  PatternPass pass;
};

/// One block's work: rows from `first` of one head of a job.  A dense one reads the tiles
/// [begin, end) of the set's slots, of which each row sees all of [unmasked_begin, unmasked_end).
struct RowsTask {
  int job, head, first;
  int begin, end, unmasked_begin, unmasked_end;
};

/// Job `job`, computed in parts, which are jobs of their own with `out` [part, row, head, head_dim]
/// and `lse` [part, row, head].
struct RowsMerge {
  int job, parts;
  const float *out, *lse;
};

template <typename T>
struct DeviceList {
  const T* data = nullptr;
  unsigned size = 0;
};

/// Jobs of one layout of pages, uploaded: the tasks of dense heads in blocks of `dense_rows` rows,
/// those of patterned ones in blocks of 64, each with the most keys first, and what is then to be
/// merged.  There is a job, and each has rows.
struct RowsPlan {
  DType dtype = DType::kF32;
  int head_dim = 0;
  const RowsJob* jobs = nullptr;
  DeviceList<RowsTask> dense, patterned;
  DeviceList<RowsMerge> merges;
  int max_merged_rows = 0;  ///< rows times heads of the largest merge
};
/// Parts of a job over up to `keys` keys, at most, and rows of a job that is split.
std::int64_t max_parts(std::int64_t keys);
constexpr std::int64_t kMaxSplitRows = 256;

RowsPlan plan_rows(Context& context, std::span<const AttentionJob* const> jobs, int dense_rows);

/// Rows of a dense task with this layout.
int dense_rows_16(int head_dim);
constexpr int kDenseRows32 = 64;

void launch_rows_16(Context& context, float scale, const RowsPlan& plan);
void launch_rows_32(Context& context, float scale, const RowsPlan& plan);
void merge_parts(Context& context, const RowsPlan& plan);

}  // namespace turnbench::cuda
