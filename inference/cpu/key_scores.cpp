// Scores of the queries of a group against keys in their pages, each of which is read once for all
// heads.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/key_scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/row_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// The keys of a tile: of columns [at, at + count) of a job.
template <typename T>
struct KeyTile {
  std::array<const T*, kTile> rows;  ///< rows beyond `count`, or without a slot, point to any key
  int count = 0;

  KeyTile(const KeyScoreJob& job, std::int64_t at, std::int64_t end)
      : count(static_cast<int>(std::min<std::int64_t>(kTile, end - at))) {
    const auto pages = job.set->page_data();
    const std::int64_t width = job.q.columns;
    for (int j = 0; j < kTile; ++j) {
      const std::int64_t column = at + std::min(j, count - 1);
      const std::int64_t slot =
          job.slots.empty() ? column : std::max<std::int64_t>(job.slots[column], 0);
      rows[j] = reinterpret_cast<const T*>(pages[slot / kPageTokens]) + slot % kPageTokens * width;
    }
  }
};

/// The part before `end` of the page that begins with column `at`.
template <typename T>
RowsAhead<T> page_ahead(const KeyScoreJob& job, std::int64_t at, std::int64_t end) {
  if (!job.slots.empty() || at >= end) return {};
  const T* first = reinterpret_cast<const T*>(job.set->page_data()[at / kPageTokens]);
  return {first, first + std::min<std::int64_t>(kPageTokens, end - at) * job.q.columns};
}

template <typename T>
void score_key_piece_typed(const KeyScoreJob& job, float scale, const Piece& piece,
                           float* scratch) {
  BumpAllocator bump(scratch);
  const std::int64_t heads = job.q.rows, dim = job.q.columns;
  const MatrixView<float> q(bump.floats(heads * dim), heads, dim);
  float* transposed = bump.floats(kTile * dim);
  float* s_memory = bump.floats(kTile * heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t d = 0; d < dim; ++d) q(h, d) = scale * job.q(h, d);
  }
  const std::int64_t end = piece.first + piece.count;
  for (std::int64_t at = piece.first; at < end; at += kTile) {
    const KeyTile<T> tile(job, at, end);
    const MatrixView<float> s(s_memory, heads, padded(tile.count), kTile);
    row_products(q, tile.rows.data(), transposed, s, false, page_ahead<T>(job, at + kTile, end));
    for (std::int64_t h = 0; h < heads; ++h) std::copy_n(s.row(h), tile.count, job.out.row(h) + at);
  }
  for (std::int64_t j = piece.first; !job.slots.empty() && j < end; ++j) {
    if (job.slots[j] >= 0) continue;
    for (std::int64_t h = 0; h < heads; ++h) job.out(h, j) = kMasked;
  }
}

void score_key_piece(const KeyScoreJob& job, float scale, const Piece& piece, float* scratch) {
  switch (job.set->layout().dtype) {
    case DType::kF32:
      return score_key_piece_typed<float>(job, scale, piece, scratch);
    case DType::kF16:
      return score_key_piece_typed<hwy::float16_t>(job, scale, piece, scratch);
    case DType::kBF16:
      return score_key_piece_typed<hwy::bfloat16_t>(job, scale, piece, scratch);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(score_key_piece);

void score_keys(ThreadPool& pool, float scale, std::span<const KeyScoreJob> jobs,
                AttentionWorkspace& workspace) {
  constexpr std::int64_t kKeys = 16 * kPageTokens;
  const auto pieces =
      pieces_of(jobs, kKeys, [](const KeyScoreJob& job) { return job.out.columns; });
  const std::int64_t scratch = most_floats(jobs, [](const KeyScoreJob& job) {
    return (job.q.rows + kTile) * padded(static_cast<int>(job.q.columns)) + kTile * job.q.rows +
           3 * 16;
  });
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(score_key_piece)(jobs[piece.job], scale, piece, memory);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
