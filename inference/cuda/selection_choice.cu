// From scores to tokens: reductions over heads, the greatest scores, and nearest centroids; and
// what attention is blended or merged with.

#include <algorithm>
#include <bit>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/float_math.h"
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

/// Grid: (columns / kReduceThreads, jobs).  Threads merge the parts of a head each, then every
/// thread reduces a column, head by head in order.
__global__ void __launch_bounds__(kReduceThreads) reduce_columns(const HeadScoresView* jobs) {
  const HeadScoresView job = jobs[blockIdx.y];
  const int begin = static_cast<int>(blockIdx.x) * kReduceThreads,
            thread = static_cast<int>(threadIdx.x), j = begin + thread;
  if (begin >= job.n) return;
  // [heads]: maxima with inverted sums, or with what is taken from the scores of a logarithm
  auto* whole = reinterpret_cast<SoftmaxPart*>(shared_memory());
  const bool plain = job.reduction == HeadReduction::kSum,
             logarithms = job.reduction == HeadReduction::kMaxOfLogSoftmax;
  for (int h = thread; h < job.heads && !plain; h += kReduceThreads) {
    const SoftmaxPart* parts = job.parts + h * job.count;
    float top = kMasked, sum = 0;
    for (int p = 0; p < job.count; ++p) top = fmaxf(top, parts[p].top);
    for (int p = 0; p < job.count; ++p) sum += parts[p].sum * weight_of(parts[p].top, top);
    whole[h] = {top,
                logarithms ? (sum == 0 ? INFINITY : top + logf(sum)) : (sum == 0 ? 0 : 1 / sum)};
  }
  __syncthreads();
  if (j >= job.n) return;
  float out = logarithms ? kMasked : 0;
  for (int h = 0; h < job.heads; ++h) {
    const float x = job.scores[h * job.stride + j];
    if (!logarithms) {
      out += plain ? x : weight_of(x, whole[h].top) * whole[h].sum;
    } else if (const float term = x - whole[h].sum; term > out || isnan(term)) {
      out = term;
    }
  }
  job.out[j] = out;
}

/// What heads give to some slots.
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

struct BlendedHeads {
  float* out;
  std::int64_t stride;
  int heads, dim;
  const float *weights, *vector;
};

/// Grid: (heads, jobs).
__global__ void __launch_bounds__(kReduceThreads) blend_heads(const BlendedHeads* jobs) {
  const BlendedHeads job = jobs[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x);
  if (head >= job.heads) return;
  const float weight = job.weights[head];
  float* out = job.out + head * job.stride;
  for (int d = static_cast<int>(threadIdx.x); d < job.dim; d += kReduceThreads)
    out[d] = fmaf(weight, out[d], (1 - weight) * job.vector[d]);
}

struct MergedRows {
  float *out, *lse;
  const float *other_out, *other_lse;
  std::int64_t out_stride, lse_stride, other_out_stride, other_lse_stride;
  int rows, heads, dim;
};

/// Grid: (rows, jobs); a warp takes heads in turns.
__global__ void __launch_bounds__(kReduceThreads) merge_rows(const MergedRows* jobs) {
  const MergedRows job = jobs[blockIdx.y];
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            lane = thread % kWarp;
  if (row >= job.rows) return;
  for (int h = thread / kWarp; h < job.heads; h += kReduceWarps) {
    float* lse = job.lse + row * job.lse_stride + h;
    const float a = *lse, b = job.other_lse[row * job.other_lse_stride + h], top = fmaxf(a, b);
    if (b == kMasked) continue;
    const float own = expf(a - top), other = expf(b - top), sum = own + other;
    float* out = job.out + row * job.out_stride + h * job.dim;
    const float* from = job.other_out + row * job.other_out_stride + h * job.dim;
    for (int d = lane; d < job.dim; d += kWarp)
      out[d] = fmaf(own / sum, out[d], other / sum * from[d]);
    __syncwarp();
    if (lane == 0) *lse = top + logf(sum);
  }
}

constexpr int kTopThreads = 512, kTopWarps = kTopThreads / kWarp;
constexpr int kBins = 256, kCopies = 8;  // of the counts, so that fewer lanes count in one place

struct ScoreList {
  const float* scores;
  int n, k;              ///< k at most n
  std::int32_t* chosen;  ///< [k]
  std::int32_t* nan;     ///< becomes 1 if there is one
};

/// A number in the order of the scores; -0 and 0 are one.
__device__ std::uint32_t order_of(float x) {
  constexpr std::uint32_t kSign = 0x80000000;
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct TopShared {
  int counts[kCopies][kBins + 1];
  int of_warps[kTopWarps];
  std::uint32_t key;  ///< the upper bits of the k-th greatest key
  int left;           ///< its place among the keys with the same upper bits
};

/// Finds the bin of the k-th greatest key, k = shared.left; by one warp, whose lanes have 8 bins
/// each, the greatest first.
__device__ void find_bin(TopShared& shared, int lane) {
  constexpr int kPerLane = kBins / kWarp;
  const int last = kBins - 1 - lane * kPerLane;
  int counts[kPerLane], sum = 0;
  for (int i = 0; i < kPerLane; ++i) {
    counts[i] = 0;
    for (int c = 0; c < kCopies; ++c) counts[i] += shared.counts[c][last - i];
    sum += counts[i];
  }
  int before = sum;  // with this lane's, for now
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFF, before, static_cast<unsigned>(step));
    if (lane >= step) before += other;
  }
  before -= sum;
  const int left = shared.left;
  __syncwarp();
  if (before >= left || before + sum < left) return;
  int i = 0;
  for (; before + counts[i] < left; ++i) before += counts[i];
  shared.key = shared.key << 8 | static_cast<std::uint32_t>(last - i);
  shared.left = left - before;
}

/// The number of set predicates of the threads before this one; `all` becomes that of the block.
__device__ int rank_in_block(TopShared& shared, bool predicate, int& all) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned votes = __ballot_sync(0xFFFFFFFF, predicate);
  if (lane == 0) shared.of_warps[warp] = __popc(votes);
  __syncthreads();
  int rank = __popc(votes & ((1u << lane) - 1));
  all = 0;
  for (int w = 0; w < kTopWarps; ++w) {
    if (w < warp) rank += shared.of_warps[w];
    all += shared.of_warps[w];
  }
  __syncthreads();  // before the next ranks come
  return rank;
}

/// Grid: (jobs).  Radix selection of the k-th greatest key, 8 bits at a time, then one pass over
/// the scores in order.
__global__ void __launch_bounds__(kTopThreads) choose_greatest(const ScoreList* lists) {
  const ScoreList list = lists[blockIdx.x];
  auto& shared = *reinterpret_cast<TopShared*>(shared_memory());
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < list.n; i += kTopThreads) {
    if (isnan(list.scores[i])) *list.nan = 1;
  }
  if (list.k == 0) return;
  if (thread == 0) {
    shared.key = 0;
    shared.left = list.k;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread; i < kCopies * (kBins + 1); i += kTopThreads) (&shared.counts[0][0])[i] = 0;
    __syncthreads();
    const std::uint32_t known = shared.key;
    for (int i = thread; i < list.n; i += kTopThreads) {
      const std::uint32_t key = order_of(list.scores[i]);
      if (shift == 24 || key >> (shift + 8) == known)
        atomicAdd(&shared.counts[thread % kCopies][key >> shift & (kBins - 1)], 1);
    }
    __syncthreads();
    if (thread < kWarp) find_bin(shared, thread);
    __syncthreads();
  }
  const std::uint32_t kth = shared.key;
  const int equals = shared.left;
  int chosen = 0, seen = 0;  // and of the equals
  for (int begin = 0; begin < list.n && chosen < list.k; begin += kTopThreads) {
    const int i = begin + thread;
    const std::uint32_t key = i < list.n ? order_of(list.scores[i]) : 0;
    int more_equals, more_chosen;
    const bool equal = i < list.n && key == kth;
    const int equal_rank = seen + rank_in_block(shared, equal, more_equals);
    const bool chooses = i < list.n && (key > kth || (equal && equal_rank < equals));
    const int rank = chosen + rank_in_block(shared, chooses, more_chosen);
    if (chooses) list.chosen[rank] = i;
    seen += more_equals;
    chosen += more_chosen;
  }
}

constexpr int kNearestThreads = 256, kNearestWarps = kNearestThreads / kWarp;
constexpr int kVectorsPerWarp = 4;

struct NearestTask {
  const float *vectors, *centroids;
  std::int64_t stride, centroid_stride;
  int rows, count, dim;
  std::uint8_t* out;
};

/// Grid: (vectors / 32, jobs).  A lane takes a centroid c of a tile in shared memory, a warp some
/// vectors v, of which v . c - |c|^2 / 2 is greatest for the nearest.
__global__ void __launch_bounds__(kNearestThreads) find_nearest(const NearestTask* tasks) {
  const NearestTask task = tasks[blockIdx.y];
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp,
            begin = static_cast<int>(blockIdx.x) * kNearestWarps * kVectorsPerWarp,
            first = begin + warp * kVectorsPerWarp;
  if (begin >= task.rows) return;
  auto* tile = reinterpret_cast<float*>(shared_memory());  // [kWarp][dim + 1]
  const int pitch = task.dim + 1;
  float best[kVectorsPerWarp];
  int index[kVectorsPerWarp] = {};
  const float* vectors[kVectorsPerWarp];
#pragma unroll
  for (int v = 0; v < kVectorsPerWarp; ++v) {
    best[v] = kMasked;
    vectors[v] = task.vectors + min(first + v, task.rows - 1) * task.stride;
  }
  for (int c0 = 0; c0 < task.count; c0 += kWarp) {
    __syncthreads();  // the tile before has been used
    const int count = min(kWarp, task.count - c0);
    for (int c = warp; c < count; c += kNearestWarps) {
      for (int d = lane; d < task.dim; d += kWarp)
        tile[c * pitch + d] = task.centroids[(c0 + c) * task.centroid_stride + d];
    }
    __syncthreads();
    const float* centroid = tile + min(lane, count - 1) * pitch;
    float square = 0, scores[kVectorsPerWarp];
    for (int d = 0; d < task.dim; ++d) square = fmaf(centroid[d], centroid[d], square);
#pragma unroll
    for (int v = 0; v < kVectorsPerWarp; ++v) scores[v] = -0.5f * square;
    for (int d = 0; d < task.dim; ++d) {
      const float x = centroid[d];
#pragma unroll
      for (int v = 0; v < kVectorsPerWarp; ++v) scores[v] = fmaf(vectors[v][d], x, scores[v]);
    }
#pragma unroll
    for (int v = 0; v < kVectorsPerWarp; ++v) {
      if (lane >= count || scores[v] <= best[v]) continue;
      best[v] = scores[v];
      index[v] = c0 + lane;
    }
  }
#pragma unroll
  for (int v = 0; v < kVectorsPerWarp; ++v) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFF, best[v], step);
      const int at = __shfl_xor_sync(0xFFFFFFFF, index[v], step);
      if (other > best[v] || (other == best[v] && at < index[v])) {
        best[v] = other;
        index[v] = at;
      }
    }
    if (lane == 0 && first + v < task.rows)
      task.out[first + v] = static_cast<std::uint8_t>(index[v]);
  }
}

unsigned as_many(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace

void reduce_heads(Context& context, std::span<const ReduceHeadsJob> jobs) {
  context.begin();
  std::vector<HeadScoresView> views, softmaxes;
  unsigned parts = 0, heads = 0, blocks = 0;
  for (const ReduceHeadsJob& job : jobs) {
    const auto n = static_cast<int>(job.out.columns), rows = static_cast<int>(job.scores.rows);
    const unsigned count = as_many(n, kPartScores);
    HeadScoresView view{job.scores.data, job.scores.stride,       rows,        n, job.reduction,
                        nullptr,         static_cast<int>(count), job.out.data};
    if (job.reduction != HeadReduction::kSum && n > 0) {
      view.parts = context.scratch<SoftmaxPart>(static_cast<std::size_t>(rows) * count);
      softmaxes.push_back(view);
      parts = std::max(parts, count);
    }
    views.push_back(view);
    heads = std::max(heads, static_cast<unsigned>(rows));
    blocks = std::max(blocks, as_many(n, kReduceThreads));
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
    const unsigned count = as_many(n, kPartScores);
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

void blend(Context& context, std::span<const BlendJob> jobs) {
  context.begin();
  std::vector<BlendedHeads> tasks;
  unsigned heads = 0;
  for (const BlendJob& job : jobs) {
    tasks.push_back({job.out.data, job.out.stride, static_cast<int>(job.out.rows),
                     static_cast<int>(job.out.columns), job.weights, job.vector});
    heads = std::max(heads, static_cast<unsigned>(job.out.rows));
  }
  context.launch(blend_heads, dim3(heads, static_cast<unsigned>(tasks.size())), kReduceThreads, 0,
                 context.upload(tasks));
}

void merge(Context& context, std::span<const MergeJob> jobs) {
  context.begin();
  std::vector<MergedRows> tasks;
  unsigned rows = 0;
  for (const MergeJob& job : jobs) {
    tasks.push_back({job.out.data, job.lse.data, job.other_out.data, job.other_lse.data,
                     job.out.stride, job.lse.stride, job.other_out.stride, job.other_lse.stride,
                     static_cast<int>(job.out.rows), static_cast<int>(job.lse.columns),
                     static_cast<int>(job.out.columns / job.lse.columns)});
    rows = std::max(rows, static_cast<unsigned>(job.out.rows));
  }
  context.launch(merge_rows, dim3(rows, static_cast<unsigned>(tasks.size())), kReduceThreads, 0,
                 context.upload(tasks));
}

void top_k(Context& context, std::span<const TopKJob> jobs) {
  context.begin();
  std::size_t wanted = 0;
  std::vector<ScoreList> lists;
  for (const TopKJob& job : jobs) {
    const int n = static_cast<int>(job.scores.size()), k = std::clamp(job.k, 0, n);
    lists.push_back({job.scores.data(), n, k, nullptr, nullptr});
    wanted += static_cast<std::size_t>(k);
  }
  // One array of whether there are NaNs, and then of what is chosen.
  auto* device = context.scratch<std::int32_t>(jobs.size() + wanted);
  context.zero(device, jobs.size() * sizeof(std::int32_t));
  std::int32_t *nan = device, *chosen = device + jobs.size();
  for (ScoreList& list : lists) {
    list.nan = nan++;
    list.chosen = chosen;
    chosen += list.k;
  }
  context.launch(choose_greatest, static_cast<unsigned>(lists.size()), kTopThreads,
                 sizeof(TopShared), context.upload(lists));
  std::vector<std::int32_t> found(jobs.size() + wanted);
  if (!found.empty()) context.copy(found.data(), device, found.size() * sizeof(std::int32_t));
  context.synchronize();
  const auto after = found.begin() + std::ssize(jobs);
  if (std::find(found.begin(), after, 1) != after)
    throw runtime_error("top_k: found a score that is not a number");
  auto at = after;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].out->assign(at, at + lists[i].k);
    at += lists[i].k;
  }
}

void assign_nearest(Context& context, std::span<const NearestJob> jobs) {
  context.begin();
  std::vector<NearestTask> tasks;
  int rows = 0, dim = 0;
  for (const NearestJob& job : jobs) {
    tasks.push_back({job.vectors.data, job.centroids.data, job.vectors.stride, job.centroids.stride,
                     static_cast<int>(job.vectors.rows), static_cast<int>(job.centroids.rows),
                     static_cast<int>(job.vectors.columns), job.out});
    rows = std::max(rows, tasks.back().rows);
    dim = std::max(dim, tasks.back().dim);
  }
  context.launch(
      find_nearest,
      dim3(as_many(rows, kNearestWarps * kVectorsPerWarp), static_cast<unsigned>(tasks.size())),
      kNearestThreads, sizeof(float) * kWarp * static_cast<std::size_t>(dim + 1),
      context.upload(tasks));
}

}  // namespace turnbench::cuda
