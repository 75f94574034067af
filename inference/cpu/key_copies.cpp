// Copies keys from the pages of a set: transposed, or as floats.

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/key_copies.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/row_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// T: an integer type of the element size.
template <typename T>
void transpose_page_typed(const TransposeKeysJob& job, const Piece& piece, float* memory) {
  constexpr std::int64_t kFew = 8;  // with fewer slots, transposing a page does not pay off
  const KvHeadCache& set = *job.set;
  const std::int64_t dim = set.layout().head_dim, first = piece.first % kTile;
  const T* keys = reinterpret_cast<const T*>(set.pages()[piece.first / kTile]->data) + first * dim;
  T* columns = reinterpret_cast<T*>(job.columns) + (piece.first - job.first_column);
  if (piece.count < kFew) {
    for (std::int64_t d = 0; d < dim; ++d) {
      for (std::int64_t j = 0; j < piece.count; ++j)
        columns[d * job.column_stride + j] = keys[j * dim + d];
    }
    return;
  }
  const T* rows[kTile];
  for (std::int64_t j = 0; j < kTile; ++j) rows[j] = keys + std::min(j, piece.count - 1) * dim;
  if constexpr (sizeof(T) == sizeof(float)) {
    transpose_keys(rows, static_cast<std::size_t>(dim), memory);
  } else {
    transpose_halves(rows, static_cast<std::size_t>(dim), reinterpret_cast<std::uint16_t*>(memory));
  }
  const T* transposed = reinterpret_cast<const T*>(memory);
  for (std::int64_t d = 0; d < dim; ++d)
    std::copy_n(transposed + d * kTile, piece.count, columns + d * job.column_stride);
}

/// memory: scratch [head_dim, 64].
void transpose_page(const TransposeKeysJob& job, const Piece& piece, float* memory) {
  if (job.set->layout().dtype == DType::kF32) {
    transpose_page_typed<float>(job, piece, memory);
  } else {
    transpose_page_typed<std::uint16_t>(job, piece, memory);
  }
}

template <typename T>
void read_rows_of_piece_typed(const ReadRowsJob& job, const Piece& piece) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), dim = job.out.columns;
  const PageLayout& layout = job.set->layout();
  const auto pages = job.set->pages();
  for (std::int64_t r = piece.first; r < piece.first + piece.count; ++r) {
    const std::int64_t slot = job.first + r;
    const std::byte* page = pages[slot / kTile]->data;
    const T* from =
        reinterpret_cast<const T*>(page + layout.offset_of(job.row)) + slot % kTile * dim;
    float* to = job.out.row(r);
    std::int64_t i = 0;
    for (; i + lanes <= dim; i += lanes) hn::StoreU(load_wide(d, from + i), d, to + i);
    for (; i < dim; ++i) to[i] = widen(from[i]);
  }
}

void read_rows_of_piece(const ReadRowsJob& job, const Piece& piece) {
  switch (job.set->layout().dtype) {
    case DType::kF32:
      return read_rows_of_piece_typed<float>(job, piece);
    case DType::kF16:
      return read_rows_of_piece_typed<hwy::float16_t>(job, piece);
    case DType::kBF16:
      return read_rows_of_piece_typed<hwy::bfloat16_t>(job, piece);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(transpose_page);
HWY_EXPORT(read_rows_of_piece);

void transpose_keys(ThreadPool& pool, std::span<const TransposeKeysJob> jobs,
                    AttentionWorkspace& workspace) {
  const auto pieces = pieces_of(
      jobs, kTile, [](const TransposeKeysJob& job) { return job.first; },
      [](const TransposeKeysJob& job) { return job.set->size(); });
  const std::int64_t scratch = most_floats(jobs, [](const TransposeKeysJob& job) {
    return std::int64_t{kTile} * job.set->layout().head_dim;
  });
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(transpose_page)(jobs[piece.job], piece, memory);
  });
}

void read_rows(ThreadPool& pool, std::span<const ReadRowsJob> jobs) {
  constexpr std::int64_t kRows = 256;
  const auto pieces = pieces_of(jobs, kRows, [](const ReadRowsJob& job) { return job.out.rows; });
  pool.parallel_for(pieces.size(), [&](std::size_t t, int) {
    HWY_DYNAMIC_DISPATCH(read_rows_of_piece)(jobs[pieces[t].job], pieces[t]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
