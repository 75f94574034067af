// The greatest scores of lists.

#include <algorithm>
#include <bit>
#include <vector>

#include "inference/cuda/device.h"
#include "inference/cuda/float_math.h"
#include "inference/cuda/grid.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

constexpr int kTopThreads = 512, kTopWarps = kTopThreads / kWarp;
constexpr int kBins = 256,
              kCopies = 8;  // copies of the counters, to reduce contention between lanes

struct ScoreList {
  const float* scores;
  int n, k;              ///< k at most n
  std::int32_t* chosen;  ///< [k]
  std::int32_t* nan;     ///< set to 1 if there is a NaN
};

/// An unsigned number with the order of the scores; -0 and 0 are equal.
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

/// Finds the bin of the k-th greatest key, k = shared.left.  Executed by one warp, whose lanes have
/// 8 bins each, the greatest first.
__device__ void find_bin(TopShared& shared, int lane) {
  constexpr int kPerLane = kBins / kWarp;
  const int last = kBins - 1 - lane * kPerLane;
  int counts[kPerLane], sum = 0;
  for (int i = 0; i < kPerLane; ++i) {
    counts[i] = 0;
    for (int c = 0; c < kCopies; ++c) counts[i] += shared.counts[c][last - i];
    sum += counts[i];
  }
  int before = sum;  // includes this lane's for now
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

/// The number of true predicates in preceding threads; `all` becomes the number in the block.
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
  __syncthreads();  // before the next ranks are computed
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
  int chosen = 0, seen = 0;  // seen: keys equal to the k-th greatest
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

}  // namespace

void top_k(Context& context, std::span<const TopKJob> jobs) {
  context.begin();
  std::size_t wanted = 0;
  std::vector<ScoreList> lists;
  for (const TopKJob& job : jobs) {
    const int n = static_cast<int>(job.scores.size()), k = std::clamp(job.k, 0, n);
    lists.push_back({job.scores.data(), n, k, nullptr, nullptr});
    wanted += static_cast<std::size_t>(k);
  }
  // One array with the NaN flags, followed by the selected indices.
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

}  // namespace turnbench::cuda
