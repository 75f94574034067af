#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

constexpr float kLog2E = 1.4426950408889634F;

constexpr int kTileKeys = kPageTokens;  ///< keys per tile
/// As a reach: all earlier keys.  As a position: after all rows.
constexpr int kEverywhere = std::numeric_limits<std::int32_t>::max();

/// A HeadPattern for kernels.  Its lists are parts of one array of integers in device memory.
struct PatternView {
  HeadPattern::Kind kind;
  bool lines_exact;               ///< kVerticalSlash with Granularity::kLine
  std::int32_t sinks, local;      ///< kBand
  std::int32_t first_dense_row;   ///< kBand: position of the first dense row
  std::int32_t block_size, lead;  ///< kBlocks: the BlockGrid
  std::int32_t block_rows;        ///< kBlocks: rows per list
  const std::int32_t* columns;    ///< kVerticalSlash
  int column_count;
  const std::int32_t* offsets;  ///< kVerticalSlash
  int offset_count;
  /// kVerticalSlash with Granularity::kLine: bit i % 32 of word i / 32 is set for column or offset
  /// i.
  const std::uint32_t *column_bits, *offset_bits;
  const std::int32_t* blocks;  ///< kBlocks: all lists concatenated
  const std::int32_t* lists;   ///< kBlocks: list i is [lists[i], lists[i + 1]) of `blocks`
};

/// An AttentionJob for kernels.  q, out: [rows, heads * head_dim]; lse: [rows, heads] or null.
struct RowsJob {
  SetView keys;
  const float* q;
  float *out, *lse;
  std::int64_t q_stride, out_stride, lse_stride;
  const std::int32_t* positions;  ///< [rows]
  int rows, heads;
  int reach;                    ///< a row sees keys less than `reach` positions before it
  const PatternView* patterns;  ///< [heads], or null
  PatternPass pass;
};

/// The work of one block: the rows from `first` on of one head of a job.  A dense task reads the
/// tiles (pages) [begin, end) of the set; the tiles [unmasked_begin, unmasked_end) need no mask,
/// because every row sees all of their keys.
struct RowsTask {
  int job, head, first;
  int begin, end, unmasked_begin, unmasked_end;
};

/// The merge of job `job`, which is computed in parts over its keys.  The parts are separate jobs.
/// out: [parts, rows, heads, head_dim]; lse: [parts, rows, heads].
struct RowsMerge {
  int job, parts;
  const float *out, *lse;
};

template <typename T>
struct DeviceList {
  const T* data = nullptr;
  unsigned size = 0;
};

/// The plan for jobs of one page layout, in device memory: tasks of dense heads with `dense_rows`
/// rows each, tasks of patterned heads with 64 rows, both with the most keys first, and the merges.
struct RowsPlan {
  DType dtype = DType::kF32;
  int head_dim = 0;
  const RowsJob* jobs = nullptr;
  DeviceList<RowsTask> dense, patterned;
  DeviceList<RowsMerge> merges;
  int max_merged_rows = 0;  ///< rows * heads of the largest merge
};
/// Upper bound of the number of parts of a job with `keys` keys.
std::int64_t max_parts(std::int64_t keys);
constexpr std::int64_t kMaxSplitRows = 256;  ///< jobs with more rows are not split

/// Makes the plan for jobs of one page layout.  There must be at least one job, and each must have
/// rows.
RowsPlan plan_rows(Context& context, std::span<const AttentionJob* const> jobs, int dense_rows);

/// Rows per dense task for 16-bit and 32-bit keys.
int dense_rows_16(int head_dim);
constexpr int kDenseRows32 = 64;

/// Launch the kernels of a plan, for 16-bit and 32-bit keys; then merge_parts merges split jobs.
void launch_rows_16(Context& context, float scale, const RowsPlan& plan);
void launch_rows_32(Context& context, float scale, const RowsPlan& plan);
void merge_parts(Context& context, const RowsPlan& plan);

}  // namespace turnbench::cuda
