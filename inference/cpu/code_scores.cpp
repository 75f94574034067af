// Scores of product-quantised keys.  A table has the contribution of every code to the scores of
// four heads in adjacent elements, so that a key takes one load per part.

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/code_scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/row_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr std::int64_t kQuad = 4;  ///< heads of a table

/// Fills the rows of part `part` in the tables of all heads: table[h / 4, part * count + code, h %
/// 4].
void fill_code_table(const CodeScoreJob& job, float scale, int part, float* table, float* scratch) {
  const std::int64_t heads = job.q.rows, all = job.centroids.rows, count = all / job.parts,
                     dim = job.centroids.columns;
  const MatrixView<const float> q = job.q.columns_at(part * dim, dim);
  BumpAllocator bump(scratch);
  float* transposed = bump.floats(kTile * dim);
  const MatrixView<float> s(bump.floats(kTile * heads), heads, kTile);
  for (std::int64_t at = part * count, end = at + count; at < end; at += kTile) {
    const std::int64_t n = std::min<std::int64_t>(kTile, end - at);
    const float* rows[kTile];
    for (std::int64_t j = 0; j < kTile; ++j) rows[j] = job.centroids.row(at + std::min(j, n - 1));
    row_products(q, rows, transposed, s, false);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* to = table + (h / kQuad * all + at) * kQuad + h % kQuad;
      for (std::int64_t j = 0; j < n; ++j) to[j * kQuad] = scale * s(h, j);
    }
  }
}

/// Scores of the keys of a piece for the `kHeads` heads of a table, [parts * count, 4].  out:
/// [kHeads, n].
template <int kHeads>
void score_codes_of(const CodeScoreJob& job, const Piece& piece, const float* HWY_RESTRICT table,
                    MatrixView<float> out) {
  const std::int64_t part_floats = job.centroids.rows / job.parts * kQuad, stride = job.code_stride,
                     end = piece.first + piece.count;
  std::int64_t j = piece.first;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  using V = hn::Vec<decltype(d)>;
  for (; j + 4 <= end; j += 4) {
    const std::uint8_t* codes = job.codes + j;
    const float* rows = table;
    V x0 = hn::LoadU(d, rows + codes[0] * kQuad), x1 = hn::LoadU(d, rows + codes[1] * kQuad);
    V x2 = hn::LoadU(d, rows + codes[2] * kQuad), x3 = hn::LoadU(d, rows + codes[3] * kQuad);
    for (int i = 1; i < job.parts; ++i) {
      codes += stride;
      rows += part_floats;
      x0 = hn::Add(x0, hn::LoadU(d, rows + codes[0] * kQuad));
      x1 = hn::Add(x1, hn::LoadU(d, rows + codes[1] * kQuad));
      x2 = hn::Add(x2, hn::LoadU(d, rows + codes[2] * kQuad));
      x3 = hn::Add(x3, hn::LoadU(d, rows + codes[3] * kQuad));
    }
    // Transposes four keys by four heads to four heads by four keys.
    const V a = hn::InterleaveLower(d, x0, x2), b = hn::InterleaveLower(d, x1, x3);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, out.row(0) + j);
    if constexpr (kHeads > 1) hn::StoreU(hn::InterleaveUpper(d, a, b), d, out.row(1) + j);
    if constexpr (kHeads > 2) {
      const V e = hn::InterleaveUpper(d, x0, x2), f = hn::InterleaveUpper(d, x1, x3);
      hn::StoreU(hn::InterleaveLower(d, e, f), d, out.row(2) + j);
      if constexpr (kHeads > 3) hn::StoreU(hn::InterleaveUpper(d, e, f), d, out.row(3) + j);
    }
  }
#endif  // HWY_TARGET != HWY_SCALAR
  for (; j < end; ++j) {
    for (int h = 0; h < kHeads; ++h) {
      float sum = table[job.codes[j] * kQuad + h];
      for (int i = 1; i < job.parts; ++i)
        sum += table[i * part_floats + job.codes[i * stride + j] * kQuad + h];
      out(h, j) = sum;
    }
  }
}

void score_code_piece(const CodeScoreJob& job, const Piece& piece, const float* table) {
  for (std::int64_t h = 0; h < job.out.rows; h += kQuad) {
    const std::int64_t heads = std::min(kQuad, job.out.rows - h);
    with_constant<kQuad>(static_cast<int>(heads), [&](auto n) {
      score_codes_of<decltype(n)::value>(job, piece, table + h * job.centroids.rows,
                                         job.out.rows_at(h, heads));
    });
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(fill_code_table);
HWY_EXPORT(score_code_piece);

void score_codes(ThreadPool& pool, float scale, std::span<const CodeScoreJob> jobs,
                 AttentionWorkspace& workspace) {
  constexpr std::int64_t kKeys = 8192;
  std::vector<std::int64_t> table_at;
  std::int64_t floats = 0;
  for (const CodeScoreJob& job : jobs) {
    table_at.push_back(floats);
    floats += (job.q.rows + 3) / 4 * 4 * job.centroids.rows;
  }
  float* tables = workspace.partial.get(floats);
  const auto parts = pieces_of(
      jobs, 1, [](const CodeScoreJob& job) { return job.out.columns > 0 ? job.parts : 0; });
  const std::int64_t scratch = most_floats(jobs, [](const CodeScoreJob& job) {
    return kTile * (job.centroids.columns + job.q.rows) + 2 * 16;
  });
  for_each_piece(pool, parts, scratch, workspace, [&](const Piece& part, float* memory) {
    HWY_DYNAMIC_DISPATCH(fill_code_table)
    (jobs[part.job], scale, static_cast<int>(part.first), tables + table_at[part.job], memory);
  });
  const auto pieces =
      pieces_of(jobs, kKeys, [](const CodeScoreJob& job) { return job.out.columns; });
  for_each_piece(pool, pieces, 0, workspace, [&](const Piece& piece, float*) {
    HWY_DYNAMIC_DISPATCH(score_code_piece)(jobs[piece.job], piece, tables + table_at[piece.job]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
