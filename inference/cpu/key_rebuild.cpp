// Rebuilds keys from a factorisation: products with a basis, RoPE, and rounding.

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/key_rebuild.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// out[i] = a[i] . basis, for kRebuiltTogether rows.  a: [rows, rank]; out: [rows, head_dim].
HWY_INLINE void multiply(const float* a, MatrixView<const float> basis, float* out) {
  constexpr int kVectors = 2;
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), dim = basis.columns;
  const auto rank = static_cast<std::size_t>(basis.rows), width = static_cast<std::size_t>(dim),
             stride = static_cast<std::size_t>(basis.stride);
  std::int64_t at = 0;
  for (; at + kVectors * lanes <= dim; at += kVectors * lanes) {
    micro_kernel<kRebuiltTogether, kVectors>(
        rank, a, rank, StridedRows<float>{basis.data + at, stride}, out + at, width, false);
  }
  for (; at + lanes <= dim; at += lanes) {
    micro_kernel<kRebuiltTogether, 1>(rank, a, rank, StridedRows<float>{basis.data + at, stride},
                                      out + at, width, false);
  }
  for (; at < dim; ++at) {
    for (int i = 0; i < kRebuiltTogether; ++i) {
      float sum = 0;
      for (std::int64_t r = 0; r < basis.rows; ++r) sum += a[i * basis.rows + r] * basis(r, at);
      out[i * dim + at] = sum;
    }
  }
}

HWY_INLINE void rotate(float* x, std::int64_t half, const float* cos, const float* sin) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, x + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = a * cos[i] - b * sin[i];
    x[half + i] = b * cos[i] + a * sin[i];
  }
}

HWY_INLINE void round_row(const float* from, std::int64_t count, float* to) {
  std::copy_n(from, count, to);
}
HWY_INLINE void round_row(const float* from, std::int64_t count, hwy::bfloat16_t* to) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) bits[i] = float_to_bf16(from[i]);
}
HWY_INLINE void round_row(const float* from, std::int64_t count, hwy::float16_t* to) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) bits[i] = float_to_f16(from[i]);
}

template <typename T>
void rebuild_typed(const RebuildKeysJob& job, std::span<const RebuiltKey> keys, float* scratch) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), rank = job.basis.rows, dim = job.basis.columns;
  const auto pages = job.set->pages();
  float* out = scratch + kRebuiltTogether * rank;
  for (std::size_t first = 0; first < keys.size(); first += kRebuiltTogether) {
    const auto some =
        keys.subspan(first, std::min<std::size_t>(kRebuiltTogether, keys.size() - first));
    for (std::size_t i = 0; i < kRebuiltTogether; ++i) {  // repeat the last row if there are fewer
      const std::int64_t row = some[std::min(i, some.size() - 1)].row;
      const T* from = reinterpret_cast<const T*>(job.coefficients) + row * rank;
      float* to = scratch + static_cast<std::int64_t>(i) * rank;
      std::int64_t r = 0;
      for (; r + lanes <= rank; r += lanes) hn::StoreU(load_wide(d, from + r), d, to + r);
      for (; r < rank; ++r) to[r] = widen(from[r]);
    }
    multiply(scratch, job.basis, out);
    for (std::size_t i = 0; i < some.size(); ++i) {
      float* key = out + static_cast<std::int64_t>(i) * dim;
      const std::int32_t slot = some[i].slot, position = job.set->position(slot);
      rotate(key, dim / 2, job.rope.cos.row(position), job.rope.sin.row(position));
      round_row(key, dim,
                reinterpret_cast<T*>(pages[slot / kPageTokens]->data) + slot % kPageTokens * dim);
    }
  }
}

void rebuild_some(const RebuildKeysJob& job, std::span<const RebuiltKey> keys, float* scratch) {
  switch (job.set->layout().dtype) {
    case DType::kF32:
      return rebuild_typed<float>(job, keys, scratch);
    case DType::kF16:
      return rebuild_typed<hwy::float16_t>(job, keys, scratch);
    case DType::kBF16:
      return rebuild_typed<hwy::bfloat16_t>(job, keys, scratch);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(rebuild_some);

void rebuild_keys(ThreadPool& pool, std::span<const RebuildKeysJob> jobs,
                  AttentionWorkspace& workspace) {
  constexpr std::int64_t kKeys = 32;
  std::vector<std::vector<RebuiltKey>> keys(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const RebuildKeysJob::Run& run : jobs[i].runs) {
      for (std::int32_t k = 0; k < run.count; ++k) keys[i].push_back({run.row + k, run.slot + k});
    }
  }
  const auto pieces =
      pieces_of(keys, kKeys, [](const std::vector<RebuiltKey>& of) { return std::ssize(of); });
  const std::int64_t scratch = most_floats(jobs, [](const RebuildKeysJob& job) {
    return kRebuiltTogether * (job.basis.rows + job.basis.columns);
  });
  for_each_piece(pool, pieces, scratch, workspace, [&](const Piece& piece, float* memory) {
    const auto some =
        std::span(keys[piece.job])
            .subspan(static_cast<std::size_t>(piece.first), static_cast<std::size_t>(piece.count));
    HWY_DYNAMIC_DISPATCH(rebuild_some)(jobs[piece.job], some, memory);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
