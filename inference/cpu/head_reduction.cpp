// Reduces the scores of several heads to one.  A softmax is computed in chunks: the exponentials of
// each chunk are relative to its own maximum until all maxima are known.

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/head_reduction.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr std::int64_t kChunk =
    4096;                   ///< slots; two passes over them stay in the first-level cache
constexpr int kAtOnce = 4;  ///< vectors, to hide latencies

/// The intermediate softmax of a job, in `memory`.
struct Softmax {
  MatrixView<float> weights;  ///< [heads, n]: exponentials relative to the maximum of their chunk;
                              ///< for logarithms [1, n], unused
  MatrixView<float> tops;     ///< [heads, chunks]
  MatrixView<float> factors;  ///< [heads, chunks]: sums, then the factors of the exponentials or,
                              ///< for logarithms, the values subtracted from the scores

  static std::int64_t kept(const ReduceHeadsJob& job) {
    return job.reduction == HeadReduction::kMaxOfLogSoftmax ? 1 : job.scores.rows;
  }
  static std::int64_t stride(std::int64_t n) { return (n + 15) / 16 * 16; }
  static std::int64_t chunks(std::int64_t n) { return (n + kChunk - 1) / kChunk; }
  static std::int64_t floats(const ReduceHeadsJob& job) {
    const std::int64_t n = job.out.columns;
    return kept(job) * stride(n) + 2 * job.scores.rows * stride(chunks(n));
  }
  static Softmax in(float* memory, const ReduceHeadsJob& job) {
    const std::int64_t heads = job.scores.rows, n = job.out.columns, wide = stride(n),
                       count = chunks(n), narrow = stride(count);
    float* after = memory + kept(job) * wide;
    return {{memory, kept(job), n, wide},
            {after, heads, count, narrow},
            {after + heads * narrow, heads, count, narrow}};
  }
};

/// The maximum of x [n]; NaN if x contains one.
HWY_INLINE float maximum_of(const float* HWY_RESTRICT x, std::int64_t n) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  FloatVec top[kAtOnce];
  auto bad = hn::IsNaN(hn::Zero(d));
#pragma GCC unroll 4
  for (int v = 0; v < kAtOnce; ++v) top[v] = hn::Set(d, kMasked);
  std::int64_t i = 0;
  for (; i + kAtOnce * lanes <= n; i += kAtOnce * lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kAtOnce; ++v) {
      const FloatVec y = hn::LoadU(d, x + i + v * lanes);
      bad = hn::Or(bad, hn::IsNaN(y));
      top[v] = hn::Max(top[v], y);
    }
  }
  float out =
      hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]))));
  bool nan = !hn::AllFalse(d, bad);
  for (; i < n; ++i) {
    nan = nan || std::isnan(x[i]);
    out = std::max(out, x[i]);
  }
  return nan ? NAN : out;
}

/// to[i] = e^(x[i] - top), and zeros up to a multiple of 16; returns their sum, added in 16 chains
/// and then as sum16 does.
HWY_INLINE float exponentials_of(const float* HWY_RESTRICT x, std::int64_t n, float top,
                                 float* HWY_RESTRICT to) {
  constexpr std::int64_t kLanes = HWY_LANES(float), kSums = 16 / kLanes;
  const FloatTag d;
  const FloatVec shift = hn::Set(d, top);
  FloatVec sums[kSums];
#pragma GCC unroll 4
  for (int v = 0; v < kSums; ++v) sums[v] = hn::Zero(d);
  const auto add = [&](const float* from, float* out) HWY_ATTR {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v) {
      const FloatVec e = exp_ps(d, hn::Sub(hn::LoadU(d, from + v * kLanes), shift));
      hn::StoreU(e, d, out + v * kLanes);
      sums[v] = hn::Add(sums[v], e);
    }
  };
  HWY_ALIGN float partial[16];
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) add(x + i, to + i);
  if (i < n) {
    std::fill_n(partial, 16, kMasked);
    std::copy_n(x + i, n - i, partial);
    add(partial, to + i);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kSums; ++v) hn::Store(sums[v], d, partial + v * kLanes);
  return sum16(partial);
}

/// Writes the exponentials of one chunk, their maximum and their sum to the softmax.
void exponentiate_chunk(const ReduceHeadsJob& job, const Piece& piece, float* memory) {
  const Softmax softmax = Softmax::in(memory, job);
  const std::int64_t chunk = piece.first / kChunk;
  for (std::int64_t h = 0; h < job.scores.rows; ++h) {
    const float* from = job.scores.row(h) + piece.first;
    float* to = softmax.weights.row(std::min(h, softmax.weights.rows - 1)) + piece.first;
    const float top = maximum_of(from, piece.count);
    float sum = 0;
    if (std::isfinite(top)) {
      sum = exponentials_of(from, piece.count, top, to);
    } else {
      std::fill_n(to, piece.count, 0.0f);
      if (top != kMasked) sum = NAN;
    }
    softmax.tops(h, chunk) = top;
    softmax.factors(h, chunk) = sum;
  }
}

/// Converts the sums of all chunks to factors.
void merge_chunks(const ReduceHeadsJob& job, float* memory) {
  const Softmax softmax = Softmax::in(memory, job);
  for (std::int64_t h = 0; h < job.scores.rows; ++h) {
    const float* tops = softmax.tops.row(h);
    float* factors = softmax.factors.row(h);
    const std::int64_t chunks = softmax.tops.columns;
    float top = kMasked, sum = 0;
    for (std::int64_t c = 0; c < chunks; ++c) top = std::max(top, tops[c]);
    const auto weight = [&](std::int64_t c) {
      return tops[c] == kMasked ? 0.0f : exp_one(tops[c] - top);
    };
    for (std::int64_t c = 0; c < chunks; ++c) sum += factors[c] * weight(c);
    if (job.reduction == HeadReduction::kMaxOfLogSoftmax) {
      std::fill_n(factors, chunks, sum == 0 ? INFINITY : top + std::log(sum));
    } else {
      const float inverse = sum == 0 ? 0 : 1 / sum;
      for (std::int64_t c = 0; c < chunks; ++c) factors[c] = weight(c) * inverse;
    }
  }
}

/// out[j] = sum of factors[h] * x[h, j] over the heads h in order, or maximum of x[h, j] -
/// factors[h].  factors: one per head, `stride` apart; null: the sum, or the maximum, of x[h, j].
template <bool kMaximum, class D>
HWY_INLINE hn::Vec<D> reduced(D d, MatrixView<const float> x, std::int64_t j, const float* factors,
                              std::int64_t stride) {
  const auto at = [&](std::int64_t h) HWY_ATTR { return hn::LoadU(d, x.row(h) + j); };
  if (factors == nullptr) {
    auto out = at(0);
    for (std::int64_t h = 1; h < x.rows; ++h) {
      const auto y = at(h);
      out = kMaximum ? hn::IfThenElse(hn::Or(hn::IsNaN(out), hn::IsNaN(y)), hn::Add(out, y),
                                      hn::Max(out, y))
                     : hn::Add(out, y);
    }
    return out;
  }
  const auto factor = [&](std::int64_t h) HWY_ATTR { return hn::Set(d, factors[h * stride]); };
  auto out = kMaximum ? hn::Sub(at(0), factor(0)) : hn::Mul(at(0), factor(0));
  for (std::int64_t h = 1; h < x.rows; ++h) {
    out = kMaximum ? hn::Max(out, hn::Sub(at(h), factor(h))) : hn::MulAdd(at(h), factor(h), out);
  }
  return out;
}

template <bool kMaximum>
HWY_INLINE void reduce_rows(MatrixView<const float> x, const float* factors, std::int64_t stride,
                            float* out) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  std::int64_t j = 0;
  for (; j + lanes <= x.columns; j += lanes)
    hn::StoreU(reduced<kMaximum>(d, x, j, factors, stride), d, out + j);
  const hn::CappedTag<float, 1> one;
  for (; j < x.columns; ++j)
    hn::StoreU(reduced<kMaximum>(one, x, j, factors, stride), one, out + j);
}

/// memory: the job's softmax, if it has one.
void reduce_piece(const ReduceHeadsJob& job, const Piece& piece, float* memory) {
  float* out = job.out.data + piece.first;
  const auto columns = [&](MatrixView<const float> all) {
    return all.columns_at(piece.first, piece.count);
  };
  if (job.reduction == HeadReduction::kSum)
    return reduce_rows<false>(columns(job.scores), nullptr, 0, out);
  if (job.reduction == HeadReduction::kMax)
    return reduce_rows<true>(columns(job.scores), nullptr, 0, out);
  const Softmax softmax = Softmax::in(memory, job);
  const float* factors = softmax.factors.data + piece.first / kChunk;
  const std::int64_t stride = softmax.factors.stride;
  for (std::int64_t h = 0; h < job.scores.rows; ++h) {  // a maximum would hide these
    if (!std::isnan(factors[h * stride])) continue;
    std::fill_n(out, piece.count, NAN);
    return;
  }
  if (job.reduction == HeadReduction::kMaxOfLogSoftmax) {
    reduce_rows<true>(columns(job.scores), factors, stride, out);
  } else {
    reduce_rows<false>(columns(softmax.weights), factors, stride, out);
  }
}

/// A whole job.  memory: its softmax, if it has one.
void reduce_job(const ReduceHeadsJob& job, float* memory) {
  const std::int64_t n = job.out.columns;
  const auto for_each_chunk = [n](const auto& body) {
    for (std::int64_t at = 0; at < n; at += kChunk) body(Piece{0, at, std::min(kChunk, n - at)});
  };
  if (uses_softmax(job.reduction)) {
    for_each_chunk([&](const Piece& piece) { exponentiate_chunk(job, piece, memory); });
    merge_chunks(job, memory);
  }
  for_each_chunk([&](const Piece& piece) { reduce_piece(job, piece, memory); });
}

/// Writes the maximum of a chunk of one head's scores and the sum of their exponentials to parts
/// [heads * chunks, 2].  chunk: index over the chunks of all heads; memory: scratch [kChunk].
void sum_chunk(const SlotMassJob& job, std::int64_t chunk, float* memory, float* parts) {
  const std::int64_t n = job.scores.columns, chunks = Softmax::chunks(n),
                     first = chunk % chunks * kChunk, count = std::min(kChunk, n - first);
  const float* from = job.scores.row(chunk / chunks) + first;
  const float top = maximum_of(from, count);
  parts[2 * chunk] = top;
  parts[2 * chunk + 1] = std::isfinite(top) ? exponentials_of(from, count, top, memory)
                         : top == kMasked   ? 0.0f
                                            : NAN;
}

/// The mass of a job's slots for each head.
void merge_masses(const SlotMassJob& job, const float* parts) {
  const std::int64_t chunks = Softmax::chunks(job.scores.columns);
  const auto weight = [](float x, float top) { return x == kMasked ? 0.0f : exp_one(x - top); };
  for (std::int64_t h = 0; h < job.scores.rows; ++h) {
    const float* of_head = parts + 2 * h * chunks;
    const float* scores = job.scores.row(h);
    float top = kMasked;
    double sum = 0, mass = 0;
    bool nan = false;
    for (std::int64_t c = 0; c < chunks; ++c) {
      nan = nan || std::isnan(of_head[2 * c + 1]);
      top = std::max(top, of_head[2 * c]);
    }
    for (std::int64_t c = 0; c < chunks && !nan; ++c)
      sum += of_head[2 * c + 1] * weight(of_head[2 * c], top);
    for (std::size_t i = 0; i < job.slots.size() && !nan; ++i)
      mass += weight(scores[job.slots[i]], top);
    job.out[h] = nan ? NAN : sum == 0 ? 0.0f : static_cast<float>(mass / sum);
  }
}

std::int64_t softmax_floats(const ReduceHeadsJob& job) {
  return uses_softmax(job.reduction) ? Softmax::floats(job) : 0;
}

std::int64_t chunk_slots() {
  return kChunk;
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(exponentiate_chunk);
HWY_EXPORT(merge_chunks);
HWY_EXPORT(reduce_piece);
HWY_EXPORT(reduce_job);
HWY_EXPORT(softmax_floats);
HWY_EXPORT(sum_chunk);
HWY_EXPORT(merge_masses);
HWY_EXPORT(chunk_slots);

void reduce_heads(ThreadPool& pool, std::span<const ReduceHeadsJob> jobs,
                  AttentionWorkspace& workspace) {
  constexpr std::size_t kJobsOfWorker = 4;
  if (jobs.size() >= kJobsOfWorker * static_cast<std::size_t>(pool.size())) {
    // Whole jobs: a worker's exponentials stay in its cache.
    const std::int64_t scratch = most_floats(
        jobs, [](const ReduceHeadsJob& job) { return HWY_DYNAMIC_DISPATCH(softmax_floats)(job); });
    pool.parallel_for(jobs.size(), [&](std::size_t i, int worker) {
      HWY_DYNAMIC_DISPATCH(reduce_job)
      (jobs[i], workspace.worker[worker].get(scratch));
    });
    return;
  }
  std::vector<std::int64_t> at;
  std::int64_t floats = 0;
  for (const ReduceHeadsJob& job : jobs) {
    at.push_back(floats);
    floats += HWY_DYNAMIC_DISPATCH(softmax_floats)(job);
  }
  float* memory = workspace.partial.get(floats);
  const auto pieces = pieces_of(jobs, HWY_DYNAMIC_DISPATCH(chunk_slots)(),
                                [](const ReduceHeadsJob& job) { return job.out.columns; });
  std::vector<Piece> chunks;
  for (const Piece& piece : pieces) {
    if (uses_softmax(jobs[piece.job].reduction)) chunks.push_back(piece);
  }
  for_each_piece(pool, chunks, 0, workspace, [&](const Piece& piece, float*) {
    HWY_DYNAMIC_DISPATCH(exponentiate_chunk)(jobs[piece.job], piece, memory + at[piece.job]);
  });
  for (const Piece& chunk : chunks) {
    if (chunk.first == 0)
      HWY_DYNAMIC_DISPATCH(merge_chunks)(jobs[chunk.job], memory + at[chunk.job]);
  }
  for_each_piece(pool, pieces, 0, workspace, [&](const Piece& piece, float*) {
    HWY_DYNAMIC_DISPATCH(reduce_piece)(jobs[piece.job], piece, memory + at[piece.job]);
  });
}

void slot_mass(ThreadPool& pool, std::span<const SlotMassJob> jobs, AttentionWorkspace& workspace) {
  const std::int64_t grain = HWY_DYNAMIC_DISPATCH(chunk_slots)();
  const auto chunks = [grain](const SlotMassJob& job) {
    return job.scores.rows * ((job.scores.columns + grain - 1) / grain);
  };
  std::vector<std::int64_t> at;
  std::int64_t floats = 0;
  for (const SlotMassJob& job : jobs) {
    at.push_back(floats);
    floats += 2 * chunks(job);
  }
  float* parts = workspace.partial.get(floats);
  const auto pieces = pieces_of(jobs, 1, chunks);
  for_each_piece(pool, pieces, grain, workspace, [&](const Piece& piece, float* memory) {
    HWY_DYNAMIC_DISPATCH(sum_chunk)
    (jobs[piece.job], piece.first, memory, parts + at[piece.job]);
  });
  pool.parallel_for(jobs.size(), [&](std::size_t i, int) {
    HWY_DYNAMIC_DISPATCH(merge_masses)(jobs[i], parts + at[i]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
