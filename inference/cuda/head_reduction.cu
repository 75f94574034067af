// Reductions of scores over the query heads of a set.

#include <algorithm>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/float_math.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kReduceThreads = 256, kReduceWarps = kReduceThreads / kWarp;
constexpr int kPartScores = 4096;  // scores of a head that a block takes

/// Maximum of scores, and the sum of their exponentials relative to it.
struct SoftmaxPart {
  float top, sum;
};

struct HeadScoresView {
  const float* scores;
  std::int64_t stride;
  int heads, n;
  HeadReduction reduction;
  SoftmaxPart* parts;  ///< [heads][count]
  int count;
  float* out;
};

/// e^(x - top); 0 for -inf, whatever the maximum.
__device__ float weight_of(float x, float top) {
  return x == kMasked ? 0 : exp_of(x - top);
}

/// Grid: (parts, heads, jobs).  The lanes' sums, then the warps', are added in fixed trees.  NaN,
/// and the difference of infinities, become NaN in the sum.
__global__ void __launch_bounds__(kReduceThreads) softmax_parts(const HeadScoresView* jobs) {
  const HeadScoresView job = jobs[blockIdx.z];
  const int part = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  if (part >= job.count || head >= job.heads) return;
  auto* of_warps = reinterpret_cast<float*>(shared_memory());  // [kReduceWarps]
  const float* scores = job.scores + head * job.stride;
  const int begin = part * kPartScores, end = min(begin + kPartScores, job.n);
  float top = kMasked, sum = 0;
  for (int i = begin + thread; i < end; i += kReduceThreads) top = fmaxf(top, scores[i]);
  top = warp_max(top);
  if (thread % kWarp == 0) of_warps[warp] = top;
  __syncthreads();
  for (int w = 0; w < kReduceWarps; ++w) top = fmaxf(top, of_warps[w]);
  __syncthreads();
  for (int i = begin + thread; i < end; i += kReduceThreads) sum += weight_of(scores[i], top);
  sum = warp_sum(sum);
  if (thread % kWarp == 0) of_warps[warp] = sum;
  __syncthreads();
  if (thread != 0) return;
  sum = 0;
  for (int w = 0; w < kReduceWarps; ++w) sum += of_warps[w];
  job.parts[head * job.count + part] = {top, sum};
}

/// Grid: (columns / kReduceThreads, jobs).  First each thread merges the parts of a head, then
/// every thread reduces a column, head by head in order.
__global__ void __launch_bounds__(kReduceThreads) reduce_columns(const HeadScoresView* jobs) {
  const HeadScoresView job = jobs[blockIdx.y];
  const int begin = static_cast<int>(blockIdx.x) * kReduceThreads,
            thread = static_cast<int>(threadIdx.x), j = begin + thread;
  if (begin >= job.n) return;
  // [heads]: maxima with inverse sums, or with the value to subtract from the scores of a logarithm
  auto* whole = reinterpret_cast<SoftmaxPart*>(shared_memory());
  const bool softmax = uses_softmax(job.reduction),
             logarithms = job.reduction == HeadReduction::kMaxOfLogSoftmax,
             greatest = logarithms || job.reduction == HeadReduction::kMax;
  for (int h = thread; h < job.heads && softmax; h += kReduceThreads) {
    const SoftmaxPart* parts = job.parts + h * job.count;
    float top = kMasked, sum = 0;
    for (int p = 0; p < job.count; ++p) top = fmaxf(top, parts[p].top);
    for (int p = 0; p < job.count; ++p) sum += parts[p].sum * weight_of(parts[p].top, top);
    whole[h] = {top,
                logarithms ? (sum == 0 ? INFINITY : top + logf(sum)) : (sum == 0 ? 0 : 1 / sum)};
  }
  __syncthreads();
  if (j >= job.n) return;
  float out = greatest ? kMasked : 0;
  for (int h = 0; h < job.heads; ++h) {
    const float x = job.scores[h * job.stride + j];
    if (!greatest) {
      out += softmax ? weight_of(x, whole[h].top) * whole[h].sum : x;
    } else if (const float term = logarithms ? x - whole[h].sum : x; term > out || isnan(term)) {
      out = term;
    }
  }
  job.out[j] = out;
}

/// The mass of some slots, by head.
struct SlotMassView {
  HeadScoresView scores;
  const std::int32_t* slots;
  int count;
};

/// Grid: (heads, jobs).  Sums as in softmax_parts.
__global__ void __launch_bounds__(kReduceThreads) sum_slot_masses(const SlotMassView* jobs) {
  const SlotMassView job = jobs[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (head >= job.scores.heads) return;
  auto* of_warps = reinterpret_cast<float*>(shared_memory());  // [kReduceWarps]
  const SoftmaxPart* parts = job.scores.parts + head * job.scores.count;
  const float* scores = job.scores.scores + head * job.scores.stride;
  float top = kMasked, sum = 0, mass = 0;
  for (int p = 0; p < job.scores.count; ++p) top = fmaxf(top, parts[p].top);
  for (int p = 0; p < job.scores.count; ++p) sum += parts[p].sum * weight_of(parts[p].top, top);
  for (int i = thread; i < job.count; i += kReduceThreads)
    mass += weight_of(scores[job.slots[i]], top);
  mass = warp_sum(mass);
  if (thread % kWarp == 0) of_warps[thread / kWarp] = mass;
  __syncthreads();
  if (thread != 0) return;
  mass = 0;
  for (int w = 0; w < kReduceWarps; ++w) mass += of_warps[w];
  job.scores.out[head] = sum == 0 ? 0 : mass / sum;
}

}  // namespace

void reduce_heads(Context& context, std::span<const ReduceHeadsJob> jobs) {
  context.begin();
  std::vector<HeadScoresView> views, softmaxes;
  unsigned parts = 0, heads = 0, blocks = 0;
  for (const ReduceHeadsJob& job : jobs) {
    const auto n = static_cast<int>(job.out.columns), rows = static_cast<int>(job.scores.rows);
    const unsigned count = blocks_for(n, kPartScores);
    HeadScoresView view{job.scores.data, job.scores.stride,       rows,        n, job.reduction,
                        nullptr,         static_cast<int>(count), job.out.data};
    if (uses_softmax(job.reduction) && n > 0) {
      view.parts = context.scratch<SoftmaxPart>(static_cast<std::size_t>(rows) * count);
      softmaxes.push_back(view);
      parts = std::max(parts, count);
    }
    views.push_back(view);
    heads = std::max(heads, static_cast<unsigned>(rows));
    blocks = std::max(blocks, blocks_for(n, kReduceThreads));
  }
  context.launch(softmax_parts, dim3(parts, heads, static_cast<unsigned>(softmaxes.size())),
                 kReduceThreads, kReduceWarps * sizeof(float), context.upload(softmaxes));
  context.launch(reduce_columns, dim3(blocks, static_cast<unsigned>(views.size())), kReduceThreads,
                 heads * sizeof(SoftmaxPart), context.upload(views));
}

void slot_mass(Context& context, std::span<const SlotMassJob> jobs) {
  context.begin();
  std::vector<std::span<const std::byte>> lists;
  for (const SlotMassJob& job : jobs) lists.push_back(std::as_bytes(job.slots));
  const std::byte* at = context.upload_pieces(lists);
  std::vector<HeadScoresView> softmaxes;
  std::vector<SlotMassView> views;
  unsigned parts = 0, heads = 0;
  for (const SlotMassJob& job : jobs) {
    const auto n = static_cast<int>(job.scores.columns), rows = static_cast<int>(job.scores.rows);
    const unsigned count = blocks_for(n, kPartScores);
    softmaxes.push_back({job.scores.data, job.scores.stride, rows, n, HeadReduction::kSumOfSoftmax,
                         context.scratch<SoftmaxPart>(static_cast<std::size_t>(rows) * count),
                         static_cast<int>(count), job.out});
    views.push_back({softmaxes.back(), reinterpret_cast<const std::int32_t*>(at),
                     static_cast<int>(job.slots.size())});
    at += job.slots.size_bytes();
    parts = std::max(parts, count);
    heads = std::max(heads, static_cast<unsigned>(rows));
  }
  context.launch(softmax_parts, dim3(parts, heads, static_cast<unsigned>(softmaxes.size())),
                 kReduceThreads, kReduceWarps * sizeof(float), context.upload(softmaxes));
  context.launch(sum_slot_masses, dim3(heads, static_cast<unsigned>(views.size())), kReduceThreads,
                 kReduceWarps * sizeof(float), context.upload(views));
}

}  // namespace turnbench::cuda
