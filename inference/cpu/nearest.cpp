// Nearest centroids: v . c - |c|^2 / 2 is maximal for the centroid c nearest to v.

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/nearest.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// The first index of the maximum of x [n], n a multiple of 16; 0 if there is none.
HWY_INLINE std::int64_t first_greatest(const float* HWY_RESTRICT x, std::int64_t n) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  FloatVec top = hn::LoadU(d, x);
  for (std::int64_t i = lanes; i < n; i += lanes) top = hn::Max(top, hn::LoadU(d, x + i));
  top = hn::MaxOfLanes(d, top);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), top));
    if (at >= 0) return i + at;
  }
  return 0;
}

void assign_piece(const NearestJob& job, const Piece& piece, float* scratch) {
  constexpr std::int64_t kRows = 4 * kTileRows;
  const std::int64_t count = job.centroids.rows, dim = job.centroids.columns,
                     wide = padded(static_cast<int>(count)), tiles = tiles_of(count);
  BumpAllocator bump(scratch);
  float* transposed = bump.floats(tiles * kTile * dim);  // [tiles, dim, 64]
  float* first = bump.floats(wide);
  const MatrixView<float> s(bump.floats(kRows * wide), kRows, wide);
  std::fill_n(first, wide, kMasked);
  for (std::int64_t c = 0; c < count; ++c) {
    const float* row = job.centroids.row(c);
    first[c] = -0.5f * dot(row, row, static_cast<std::size_t>(dim));
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const float* rows[kTile];
    for (std::int64_t j = 0; j < kTile; ++j)
      rows[j] = job.centroids.row(std::min(t * kTile + j, count - 1));
    transpose_keys(rows, static_cast<std::size_t>(dim), transposed + t * kTile * dim);
  }
  const std::int64_t end = piece.first + piece.count;
  for (std::int64_t r = piece.first; r < end; r += kRows) {
    const std::int64_t rows = std::min(kRows, end - r);
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(first, wide, s.row(i));
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t columns = std::min<std::int64_t>(kTile, wide - t * kTile);
      product(job.vectors.rows_at(r, rows), {transposed + t * kTile * dim, dim, columns, kTile},
              s.rows_at(0, rows).columns_at(t * kTile, columns), true);
    }
    for (std::int64_t i = 0; i < rows; ++i)
      job.out[r + i] = static_cast<std::uint8_t>(first_greatest(s.row(i), wide));
  }
}

std::int64_t assign_floats(const NearestJob& job) {
  const std::int64_t count = job.centroids.rows;
  return tiles_of(count) * kTile * job.centroids.columns +
         (4 * kTileRows + 1) * padded(static_cast<int>(count)) + 3 * 16;
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(assign_piece);
HWY_EXPORT(assign_floats);

void assign_nearest(ThreadPool& pool, std::span<const NearestJob> jobs,
                    AttentionWorkspace& workspace) {
  constexpr std::int64_t kVectors = 1024;
  const auto pieces =
      pieces_of(jobs, kVectors, [](const NearestJob& job) { return job.vectors.rows; });
  const std::int64_t scratch = most_floats(jobs, HWY_DYNAMIC_DISPATCH(assign_floats));
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(assign_piece)(jobs[piece.job], piece, memory);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
