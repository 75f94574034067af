// Mean values, blending of attention with a vector, and merging of attention results.

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/value_blend.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr std::int64_t kSummed = 64;  ///< dimensions at a time

/// Dimensions [piece.first, piece.first + piece.count) of a job.
template <typename T>
void add_rows_typed(const AddValuesJob& job, const Piece& piece) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  const PageLayout& layout = job.set->layout();
  const auto pages = job.set->pages();
  double sums[kSummed];
  float row[kSummed];
  double* all = job.sums + piece.first;
  std::copy_n(all, piece.count, sums);
  for (std::int64_t slot = job.first; slot < job.set->size(); ++slot) {
    const T* from = reinterpret_cast<const T*>(pages[slot / kTile]->data + layout.value_offset()) +
                    slot % kTile * layout.head_dim + piece.first;
    std::int64_t i = 0;
    for (; i + lanes <= piece.count; i += lanes) hn::StoreU(load_wide(d, from + i), d, row + i);
    for (; i < piece.count; ++i) row[i] = widen(from[i]);
    for (i = 0; i < piece.count; ++i) sums[i] += static_cast<double>(row[i]);
  }
  std::copy_n(sums, piece.count, all);
  if (job.mean == nullptr) return;
  for (std::int64_t i = 0; i < piece.count; ++i)
    job.mean[piece.first + i] = static_cast<float>(sums[i] / static_cast<double>(job.tokens));
}

void add_rows(const AddValuesJob& job, const Piece& piece) {
  switch (job.set->layout().dtype) {
    case DType::kF32:
      return add_rows_typed<float>(job, piece);
    case DType::kF16:
      return add_rows_typed<hwy::float16_t>(job, piece);
    case DType::kBF16:
      return add_rows_typed<hwy::bfloat16_t>(job, piece);
  }
}

template <class D>
HWY_INLINE void blend_at(D d, float weight, const float* vector, float* out) {
  const auto rest = hn::Mul(hn::Set(d, 1 - weight), hn::LoadU(d, vector));
  hn::StoreU(hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, out), rest), d, out);
}

void blend_heads(const BlendJob& job) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  for (std::int64_t h = 0; h < job.out.rows; ++h) {
    float* out = job.out.row(h);
    std::int64_t i = 0;
    for (; i + lanes <= job.out.columns; i += lanes)
      blend_at(d, job.weights[h], job.vector + i, out + i);
    for (; i < job.out.columns; ++i)
      blend_at(hn::CappedTag<float, 1>(), job.weights[h], job.vector + i, out + i);
  }
}

template <class D>
HWY_INLINE void mix_at(D d, float own, float other, const float* from, float* out) {
  const auto rest = hn::Mul(hn::Set(d, other), hn::LoadU(d, from));
  hn::StoreU(hn::MulAdd(hn::Set(d, own), hn::LoadU(d, out), rest), d, out);
}

/// Rows [piece.first, piece.first + piece.count) of a job.
void merge_rows(const MergeJob& job, const Piece& piece) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), heads = job.lse.columns, dim = job.out.columns / heads;
  for (std::int64_t r = piece.first; r < piece.first + piece.count; ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float a = job.lse(r, h), b = job.other_lse(r, h), top = std::max(a, b);
      if (b == kMasked) continue;
      const float own = std::exp(a - top), other = std::exp(b - top), sum = own + other;
      float* out = job.out.row(r) + h * dim;
      const float* from = job.other_out.row(r) + h * dim;
      std::int64_t i = 0;
      for (; i + lanes <= dim; i += lanes) mix_at(d, own / sum, other / sum, from + i, out + i);
      for (; i < dim; ++i)
        mix_at(hn::CappedTag<float, 1>(), own / sum, other / sum, from + i, out + i);
      job.lse(r, h) = top + std::log(sum);
    }
  }
}

std::int64_t summed_at_once() {
  return kSummed;
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(add_rows);
HWY_EXPORT(blend_heads);
HWY_EXPORT(merge_rows);
HWY_EXPORT(summed_at_once);

void add_values(ThreadPool& pool, std::span<const AddValuesJob> jobs) {
  const auto pieces =
      pieces_of(jobs, HWY_DYNAMIC_DISPATCH(summed_at_once)(),
                [](const AddValuesJob& job) { return std::int64_t{job.set->layout().head_dim}; });
  pool.parallel_for(pieces.size(), [&](std::size_t t, int) {
    HWY_DYNAMIC_DISPATCH(add_rows)(jobs[pieces[t].job], pieces[t]);
  });
}

void blend(std::span<const BlendJob> jobs) {
  for (const BlendJob& job : jobs) HWY_DYNAMIC_DISPATCH(blend_heads)(job);
}

void merge(ThreadPool& pool, std::span<const MergeJob> jobs) {
  constexpr std::int64_t kRows = 16;
  const auto pieces = pieces_of(jobs, kRows, [](const MergeJob& job) { return job.out.rows; });
  pool.parallel_for(pieces.size(), [&](std::size_t t, int) {
    HWY_DYNAMIC_DISPATCH(merge_rows)(jobs[pieces[t].job], pieces[t]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
