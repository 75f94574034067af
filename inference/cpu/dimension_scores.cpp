// Scores from some dimensions of transposed keys.  Each row (one dimension of all keys) is read
// once for all heads of a group; a few rows at a time are read in long sequential runs, for memory
// bandwidth.

#include <algorithm>
#include <span>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/dimension_scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/row_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr std::int64_t kRowsAtOnce = 16;
constexpr std::int64_t kBlockKeys = 1024;  // their scores stay in the first-level cache

/// Prefetches 64 keys of some rows, a row in each step.
template <typename T>
struct KeysAhead {
  std::span<const T* const> rows;
  std::int64_t key = 0;
  std::size_t next = 0;

  HWY_INLINE void step() {
    if (next == rows.size()) return;
    const auto* at = reinterpret_cast<const char*>(rows[next++] + key);
    for (std::size_t i = 0; i < kTile * sizeof(T); i += kLineBytes) prefetch_line(at + i);
  }
};

template <typename T>
void score_dimension_piece_typed(const DimensionScoreJob& job, float scale, const Piece& piece,
                                 float* scratch) {
  BumpAllocator bump(scratch);
  const std::int64_t heads = job.q.rows, count = std::ssize(job.dims);
  const MatrixView<float> q(bump.floats(heads * count), heads, count);
  const MatrixView<float> s(bump.floats(heads * kTile), heads, kTile);
  T* padded_rows = reinterpret_cast<T*>(bump.floats(count * kTile));
  std::vector<const T*> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(reinterpret_cast<const T*>(job.columns) + job.dims[i] * job.column_stride);
    for (std::int64_t h = 0; h < heads; ++h) {
      const float factor = job.factors.empty() ? scale : scale * job.factors[h];
      q(h, i) = factor * job.q(h, job.dims[i]);
    }
  }
  const std::int64_t end = piece.first + piece.count, whole = end - piece.count % kTile;
  const auto rows_from = [&](std::int64_t first) {
    return std::span<const T* const>(rows).subspan(
        first, std::min<std::int64_t>(kRowsAtOnce, count - first));
  };
  const auto multiply = [&](MatrixView<const float> of, std::int64_t first_row, std::int64_t at,
                            MatrixView<float> out, KeysAhead<T> ahead) {
    using Rows = GatheredRows<T>;
    const Rows some{rows.data() + first_row, static_cast<std::size_t>(at)};
    group_product(of, PrefetchingRows<Rows, KeysAhead<T>>{some, &ahead}, out, first_row > 0);
  };
  for (std::int64_t block = piece.first; block < whole; block += kBlockKeys) {
    const std::int64_t block_end = std::min(block + kBlockKeys, whole);
    for (std::int64_t i = 0; i < count; i += kRowsAtOnce) {
      const std::int64_t next = i + kRowsAtOnce;
      const auto some = q.columns_at(i, std::min(kRowsAtOnce, count - i));
      for (std::int64_t at = block; at < block_end; at += kTile) {
        KeysAhead<T> ahead;
        if (next < count) {
          ahead = {rows_from(next), at};
        } else if (at + kBlockKeys < whole) {
          ahead = {rows_from(0), at + kBlockKeys};
        }
        multiply(some, i, at, job.out.columns_at(at, kTile), ahead);
      }
    }
  }
  if (whole == end) return;
  for (std::int64_t i = 0; i < count; ++i) {
    T* row = padded_rows + i * kTile;
    std::fill_n(row, kTile, T());
    std::copy_n(rows[i] + whole, end - whole, row);
    rows[i] = row;
  }
  multiply(q, 0, 0, s, {});
  for (std::int64_t h = 0; h < heads; ++h)
    std::copy_n(s.row(h), end - whole, job.out.row(h) + whole);
}

void score_dimension_piece(const DimensionScoreJob& job, float scale, const Piece& piece,
                           float* scratch) {
  switch (job.dtype) {
    case DType::kF32:
      return score_dimension_piece_typed<float>(job, scale, piece, scratch);
    case DType::kF16:
      return score_dimension_piece_typed<hwy::float16_t>(job, scale, piece, scratch);
    case DType::kBF16:
      return score_dimension_piece_typed<hwy::bfloat16_t>(job, scale, piece, scratch);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(score_dimension_piece);

void score_dimensions(ThreadPool& pool, float scale, std::span<const DimensionScoreJob> jobs,
                      AttentionWorkspace& workspace) {
  constexpr std::int64_t kKeys = 8192;
  const auto pieces =
      pieces_of(jobs, kKeys, [](const DimensionScoreJob& job) { return job.out.columns; });
  const std::int64_t scratch = most_floats(jobs, [](const DimensionScoreJob& job) {
    return std::ssize(job.dims) * (job.q.rows + kTile) + kTile * job.q.rows + 3 * 16;
  });
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(score_dimension_piece)(jobs[piece.job], scale, piece, memory);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
