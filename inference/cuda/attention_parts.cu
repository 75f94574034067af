#include "inference/cuda/attention.h"
#include "inference/cuda/key_stream.h"

// Auxiliary kernels for the attention of many rows: merging the parts of a job, and counting the
// tiles of patterns.

namespace turnbench::cuda {
namespace {

constexpr int kMergingWarps = 4;

/// A warp merges one row of one head of merge blockIdx.y.  The weights of the parts are their sums
/// of exponentials, from their lse.
__global__ void merge(const RowsJob* jobs, const RowsMerge* merges) {
  const RowsMerge& merge = merges[blockIdx.y];
  const RowsJob& job = jobs[merge.job];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, pairs = job.rows * job.heads;
  const int pair =
      static_cast<int>(blockIdx.x) * kMergingWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (pair >= pairs) return;
  const int row = pair / job.heads, head = pair % job.heads;
  const int head_dim = job.keys.layout.head_dim;
  float top = kMasked, sum = 0;
  for (int p = 0; p < merge.parts; ++p) top = fmaxf(top, merge.lse[p * pairs + pair]);
  const float level = top == kMasked ? 0 : top;
  for (int p = 0; p < merge.parts; ++p) sum += expf(merge.lse[p * pairs + pair] - level);
  const float inverse = sum > 0 ? 1 / sum : 0;
  float* out = job.out + row * job.out_stride + head * head_dim;
  for (int d = lane; d < head_dim; d += kWarp) {
    float x = 0;
    for (int p = 0; p < merge.parts; ++p) {
      const std::int64_t at = static_cast<std::int64_t>(p) * pairs + pair;
      x = fmaf(expf(merge.lse[at] - level) * inverse, merge.out[at * head_dim + d], x);
    }
    out[d] = x;
  }
  if (job.lse != nullptr && lane == 0) job.lse[row * job.lse_stride + head] = level + logf(sum);
}

/// tiles[t] = tiles of patterned task t; a task per warp.
__global__ void count_tiles(const RowsJob* jobs, const RowsTask* tasks, std::int32_t* tiles) {
  auto* tile = reinterpret_cast<KeyTile*>(shared_memory());
  auto* stream = reinterpret_cast<KeyStream*>(tile + 1);
  const RowsTask& task = tasks[blockIdx.x];
  stream->start(jobs[task.job], task);
  std::int32_t count = 0;
  for (stream->next(*tile); tile->count > 0; stream->next(*tile)) ++count;
  if (threadIdx.x == 0) tiles[blockIdx.x] = count;
}

}  // namespace

void merge_parts(Context& context, const RowsPlan& plan) {
  const dim3 grid(static_cast<unsigned>((plan.max_merged_rows + kMergingWarps - 1) / kMergingWarps),
                  plan.merges.size);
  context.launch(merge, grid, kMergingWarps * kWarp, 0, plan.jobs, plan.merges.data);
}

std::int64_t count_pattern_tiles(Context& context, std::span<const AttentionJob* const> jobs) {
  context.begin();
  const RowsPlan plan = plan_rows(context, jobs, kPatternBlock);
  std::int32_t* tiles = context.scratch<std::int32_t>(plan.patterned.size);
  context.launch(count_tiles, plan.patterned.size, kWarp, sizeof(KeyStream) + sizeof(KeyTile),
                 plan.jobs, plan.patterned.data, tiles);
  std::vector<std::int32_t> counts(plan.patterned.size);
  context.copy(counts.data(), tiles, counts.size() * sizeof(std::int32_t));
  context.synchronize();
  std::int64_t sum = 0;
  for (std::int32_t count : counts) sum += count;
  return sum;
}

}  // namespace turnbench::cuda
