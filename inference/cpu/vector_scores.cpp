// Scores of the queries of a group against vectors that represent several tokens, and against page
// bounds; each is read once for all heads.

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/vector_scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/row_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// Calls scores(first, count, s) for the tiles of a piece, each with at most 64 vectors from
/// `first` on, and copies the results s [heads, 64] to `out`.
template <typename Scores>
HWY_INLINE void by_tiles(const Piece& piece, float* s_memory, MatrixView<float> out,
                         const Scores& scores) {
  const std::int64_t end = piece.first + piece.count;
  for (std::int64_t at = piece.first; at < end; at += kTile) {
    const int count = static_cast<int>(std::min<std::int64_t>(kTile, end - at));
    const MatrixView<float> s(s_memory, out.rows, padded(count), kTile);
    scores(at, count, s);
    for (std::int64_t h = 0; h < out.rows; ++h) std::copy_n(s.row(h), count, out.row(h) + at);
  }
}

/// The next at most 64 rows after the 64 from `at` on, before `end`.
template <typename T>
RowsAhead<T> rows_after(const T* first, std::int64_t stride, std::int64_t at, std::int64_t end) {
  const std::int64_t from = std::min(at + kTile, end), to = std::min(from + kTile, end);
  return {first + from * stride, first + to * stride};
}

void score_vector_piece(const VectorScoreJob& job, float scale, const Piece& piece,
                        float* scratch) {
  BumpAllocator bump(scratch);
  const MatrixView<float> q(bump.floats(job.q.rows * job.q.columns), job.q.rows, job.q.columns);
  float* transposed = bump.floats(kTile * q.columns);
  float* s_memory = bump.floats(kTile * q.rows);
  for (std::int64_t h = 0; h < q.rows; ++h) {
    for (std::int64_t d = 0; d < q.columns; ++d) q(h, d) = scale * job.q(h, d);
  }
  const std::int64_t end = piece.first + piece.count;
  by_tiles(piece, s_memory, job.out, [&](std::int64_t at, int count, MatrixView<float> s) {
    const float* rows[kTile];
    for (int j = 0; j < kTile; ++j) rows[j] = job.vectors.row(at + std::min(j, count - 1));
    row_products(q, rows, transposed, s, false,
                 rows_after(job.vectors.data, job.vectors.stride, at, end));
  });
}

/// max(q low, q high) is q high if q is positive, otherwise q low: two products, or one if the
/// bounds are equal.
template <typename T>
void score_page_piece_typed(const PageScoreJob& job, float scale, const Piece& piece,
                            float* scratch) {
  BumpAllocator bump(scratch);
  const std::int64_t heads = job.q.rows, dim = job.q.columns;
  const bool coincide = job.bounds.low == job.bounds.high;
  const MatrixView<float> negative(bump.floats(heads * dim), heads, dim);
  const MatrixView<float> positive(bump.floats(heads * dim), heads, dim);
  float* transposed = bump.floats(kTile * dim);
  float* s_memory = bump.floats(kTile * heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const float x = scale * job.q(h, d);
      negative(h, d) = std::min(x, 0.0f);
      positive(h, d) = coincide ? x : std::max(x, 0.0f);
    }
  }
  const std::int64_t end = piece.first + piece.count;
  by_tiles(piece, s_memory, job.out, [&](std::int64_t at, int count, MatrixView<float> s) {
    const auto multiply = [&](MatrixView<const float> a, const std::byte* bounds, bool add) {
      const T *first = reinterpret_cast<const T*>(bounds), *rows[kTile];
      for (int j = 0; j < kTile; ++j) rows[j] = first + (at + std::min(j, count - 1)) * dim;
      row_products(a, rows, transposed, s, add, rows_after(first, dim, at, end));
    };
    if (!coincide) multiply(negative, job.bounds.low, false);
    multiply(positive, job.bounds.high, !coincide);
  });
}

void score_page_piece(const PageScoreJob& job, float scale, const Piece& piece, float* scratch) {
  switch (job.dtype) {
    case DType::kF32:
      return score_page_piece_typed<float>(job, scale, piece, scratch);
    case DType::kF16:
      return score_page_piece_typed<hwy::float16_t>(job, scale, piece, scratch);
    case DType::kBF16:
      return score_page_piece_typed<hwy::bfloat16_t>(job, scale, piece, scratch);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(score_vector_piece);
HWY_EXPORT(score_page_piece);

namespace {

constexpr std::int64_t kGrain = 8 * kTile;

/// Scratch of a task: two copies of the queries, a transposed tile, and its scores.
template <typename Job>
std::int64_t task_scratch(const Job& job) {
  return (2 * job.q.rows + kTile) * padded(static_cast<int>(job.q.columns)) + kTile * job.q.rows +
         4 * 16;
}

template <typename Job>
std::int64_t columns_of(const Job& job) {
  return job.out.columns;
}

}  // namespace

void score_vectors(ThreadPool& pool, float scale, std::span<const VectorScoreJob> jobs,
                   AttentionWorkspace& workspace) {
  const auto pieces = pieces_of(jobs, kGrain, columns_of<VectorScoreJob>);
  const std::int64_t scratch = most_floats(jobs, task_scratch<VectorScoreJob>);
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(score_vector_piece)(jobs[piece.job], scale, piece, memory);
  });
}

void score_pages(ThreadPool& pool, float scale, std::span<const PageScoreJob> jobs,
                 AttentionWorkspace& workspace) {
  const auto pieces = pieces_of(jobs, kGrain, columns_of<PageScoreJob>);
  const std::int64_t scratch = most_floats(jobs, task_scratch<PageScoreJob>);
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(score_page_piece)(jobs[piece.job], scale, piece, memory);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
