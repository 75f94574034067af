#include "inference/cuda/decode_attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "inference/cuda/decode_plan.h"
#include "inference/cuda/device.h"

// Split-KV attention of single rows; see Dao et al., "Flash-Decoding for long-context inference"
// (2023).  The keys that a row sees are cut into segments.  A block computes one segment for up to
// kHeads query heads, so that a row of the cache is read from memory once, and writes maximum, sum
// and weighted values per head.  A second kernel merges the segments in order.

namespace turnbench::cuda {
namespace {

constexpr int kDecodeThreads = 128, kDecodeWarps = kDecodeThreads / kWarp;
constexpr int kMergeThreads = 256;
constexpr int kLaneElements = 8;  // elements of a row per lane
constexpr int kDecodeRows = 4;    // rows that a group of lanes loads at once
constexpr int kMaxHeads = 8;      // query heads per block
constexpr double kLog2OfE = 1.4426950408889634, kLn2 = 0.6931471805599453;

/// Softmax statistics of a segment and head: the maximum m of the scores times log2(e), and the sum
/// l of 2^(score - m).
struct Stats {
  float m, l;
};

struct Arguments {
  const DecodeJob* jobs;
  const DecodeTask* tasks;
  const std::uint32_t* pages;
  const std::int32_t* slots;
  const std::uint32_t* slot_heads;
  Stats* stats;
  float* sums;  // [partial, head_dim], weighted values
  int head_dim, capacity;
  std::uint32_t row_bytes, value_offset;
  float scale;  // softmax scale * log2(e)
};

/// A lane's part of kDecodeRows rows, in registers; loaded 16 bytes at a time.
template <typename T>
struct Rows {
  static constexpr int kLoads = kLaneElements * sizeof(T) / sizeof(uint4),
                       kStep = kLaneElements / kLoads;
  uint4 words[kDecodeRows][kLoads];

  /// Loads kLaneElements elements from `column` on of rows [first, first + kDecodeRows); zeros
  /// beyond row `count` and beyond the end of a row.
  __device__ void load(const std::byte* const* rows, int first, int count, std::uint32_t offset,
                       int column, int head_dim) {
    for (int r = 0; r < kDecodeRows; ++r) {
      for (int i = 0; i < kLoads; ++i) {
        const int c = column + i * kStep;
        words[r][i] = uint4{0, 0, 0, 0};
        if (first + r < count && c < head_dim)
          words[r][i] = __ldg(reinterpret_cast<const uint4*>(
              rows[first + r] + (offset + static_cast<std::uint32_t>(c * sizeof(T)))));
      }
    }
  }
  __device__ void widen(int r, float (&out)[kLaneElements]) const {
    T elements[kLaneElements];
    memcpy(elements, words[r], sizeof elements);
    for (int i = 0; i < kLaneElements; ++i) out[i] = to_float(elements[i]);
  }
};

/// Sums each of kCount values over groups of kLanes lanes, in the tree of steps kLanes / 2, ..., 1.
/// At each step a lane passes half of its values to its partner and continues with the other half.
/// At the end a lane has the sums of values [first, first + max(1, kCount / kLanes)).  Returns
/// `first`.
template <int kLanes, int kCount>
__device__ int sum_and_share(float (&values)[kCount], int lane) {
  int first = 0;
  int count = kCount;
  for (int step = kLanes / 2; step > 0; step /= 2) {
    if (count == 1) {
      values[0] += __shfl_xor_sync(0xFFFFFFFF, values[0], step);
      continue;
    }
    count /= 2;
    const bool upper = (lane & step) != 0;
    for (int i = 0; i < count; ++i) {
      const float given = upper ? values[i] : values[i + count];
      const float kept = upper ? values[i + count] : values[i];
      values[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, step);
    }
    first += upper ? count : 0;
  }
  return first;
}

/// The index of column c of a row in shared memory.  Rows [kLanes][2][4] are stored as
/// [2][kLanes][4], so that lanes that load four of their eight elements have no bank conflicts.
template <int kLanes>
__device__ int column_offset(int c) {
  return (c / 4 % 2 * kLanes + c / 8) * 4 + c % 4;
}

__device__ inline void load_four(const float* from, float* to) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  to[0] = x.x;
  to[1] = x.y;
  to[2] = x.z;
  to[3] = x.w;
}

/// The number of blocks that should share a multiprocessor: as many as possible without register
/// spills, because their pending loads hide the latency of memory.
template <typename T, int kHeads>
constexpr int kBlocks = sizeof(T) == 4        ? 3
                        : kHeads == kMaxHeads ? 4
                        : kHeads == 4         ? 6
                                              : 8;

/// Bytes of shared memory of a block for segments of up to `capacity` keys; see Segment.
constexpr std::size_t shared_bytes(int lanes, int heads, int capacity) {
  const int width = lanes * kLaneElements;
  const int floats = heads * (std::max(capacity, kDecodeWarps * width) + width);
  return sizeof(float) * static_cast<std::size_t>(floats) +
         sizeof(void*) * static_cast<std::size_t>(capacity);
}

/// One segment of a job for up to kHeads of its query heads: the work of one block. kLanes lanes
/// process a row of the cache, 8 elements each, with 4 rows in use while the next 4 are loaded; the
/// groups of lanes process the segment's rows round-robin.  Shared memory: `weights`
/// [capacity][kHeads] (scores, then softmax weights; at the end each warp's sums
/// [kDecodeWarps][kHeads][kWidth]), `rows` [capacity], `q` [kHeads][kWidth].
template <typename T, int kLanes, int kHeads>
struct Segment {
  static constexpr int kGroups = kDecodeThreads / kLanes, kWidth = kLanes * kLaneElements;
  static constexpr int kAtOnce = kGroups * kDecodeRows;  // rows per iteration of the block

  const Arguments& a;
  DecodeJob job;
  int head, heads;   // the first query head, and the number of heads
  int begin, count;  // the segment's keys [begin, begin + count) among the job's
  int partial;       // the partial result of the first head
  int group, column;
  float* weights;
  const std::byte** rows;  // the address of each key's row
  float* q;
  Rows<T> next;

  __device__ explicit Segment(const Arguments& arguments) : a(arguments) {
    const DecodeTask task = a.tasks[blockIdx.x];
    job = a.jobs[task.job];
    const int groups = (job.heads + kHeads - 1) / kHeads, segment = task.part / groups;
    head = task.part % groups * kHeads;
    heads = min(kHeads, job.heads - head);
    begin = job.first + segment * job.segment;
    count = min(job.segment, job.first + job.keys - begin);
    partial = job.partial + segment * job.heads + head;
    group = thread() / kLanes;
    column = thread() % kLanes * kLaneElements;
    weights = reinterpret_cast<float*>(shared_memory());
    rows = reinterpret_cast<const std::byte**>(
        weights + max(a.capacity * kHeads, kDecodeWarps * kHeads * kWidth));
    q = reinterpret_cast<float*>(rows + a.capacity);
  }

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % kWarp; }
  __device__ static int warp() { return thread() / kWarp; }

  /// Starts loading the group's kDecodeRows rows from `first` on: keys if `offset` is
  /// job.key_offset, values if it is a.value_offset.
  __device__ void load(int first, std::uint32_t offset) {
    next.load(rows, first, count, offset, column, a.head_dim);
  }

  /// Writes the addresses of the segment's rows and the queries to shared memory.
  __device__ void find_rows() {
    for (int j = thread(); j < count; j += kDecodeThreads) {
      const int slot = job.slots < 0 ? begin + j : a.slots[job.slots + begin + j];
      rows[j] = job.base + std::uint64_t{a.pages[job.pages + slot / kPageTokens]} * job.stride +
                static_cast<std::uint32_t>(slot % kPageTokens) * a.row_bytes;
    }
    for (int i = thread(); i < kHeads * kWidth; i += kDecodeThreads) {
      const int h = i / kWidth, c = i % kWidth;
      q[h * kWidth + column_offset<kLanes>(c)] =
          h < heads && c < a.head_dim ? job.q[(head + h) * a.head_dim + c] : 0.0f;
    }
  }

  /// weights[j][h] = query of head h * key j, unscaled.
  __device__ void compute_scores() {
    load(group * kDecodeRows, job.key_offset);
    for (int step = 0; step < count; step += kAtOnce) {
      const int at = step + group * kDecodeRows;
      float keys[kDecodeRows][kLaneElements], scores[kDecodeRows * kHeads];
      for (int r = 0; r < kDecodeRows; ++r) next.widen(r, keys[r]);
      load(at + kAtOnce, job.key_offset);
      for (int h = 0; h < kHeads; ++h) {
        float query[kLaneElements];
        for (int i = 0; i < kLaneElements; i += 4)
          load_four(q + h * kWidth + column_offset<kLanes>(column + i), query + i);
        for (int r = 0; r < kDecodeRows; ++r) {
          float dot = 0;
          for (int i = 0; i < kLaneElements; ++i) dot = fmaf(query[i], keys[r][i], dot);
          scores[r * kHeads + h] = dot;
        }
      }
      const int first = sum_and_share<kLanes>(scores, lane());
      constexpr int kLeft = kDecodeRows * kHeads > kLanes ? kDecodeRows * kHeads / kLanes : 1;
      constexpr int kCopies =
          kLanes * kLeft / (kDecodeRows * kHeads);  // lanes that have the same sum
      if (lane() % kCopies == 0) {
        for (int i = 0; i < kLeft; ++i) weights[at * kHeads + first + i] = scores[i];
      }
    }
  }

  /// Whether head `head + h` attends to the segment's key j.
  __device__ bool attends(int h, int j) const {
    return job.slot_heads < 0 || (a.slot_heads[job.slot_heads + begin + j] >> (head + h) & 1) != 0;
  }

  /// Converts scores to weights 2^(score - maximum), one warp per head; writes maximum and sum.
  __device__ void apply_softmax() {
    const int padded = (count + kAtOnce - 1) / kAtOnce * kAtOnce;
    for (int h = warp(); h < heads; h += kDecodeWarps) {
      float m = kMasked, l = 0;
      for (int j = lane(); j < count; j += kWarp)
        if (attends(h, j)) m = fmaxf(m, weights[j * kHeads + h]);
      m = warp_max(m) * a.scale;
      for (int j = lane(); j < padded; j += kWarp) {
        float& w = weights[j * kHeads + h];
        w = j < count && attends(h, j) ? exp2f(fmaf(w, a.scale, -m)) : 0.0f;
        l += w;
      }
      l = warp_sum(l);
      if (lane() == 0) a.stats[partial + h] = {m, l};
    }
  }

  /// sums[h] = this group's share of the weighted values, the lane's 8 columns.
  __device__ void accumulate_values(float (&sums)[kHeads][kLaneElements]) {
    for (int step = 0; step < count; step += kAtOnce) {
      const int at = step + group * kDecodeRows;
      float values[kDecodeRows][kLaneElements];
      for (int r = 0; r < kDecodeRows; ++r) next.widen(r, values[r]);
      load(at + kAtOnce, a.value_offset);
      for (int i = 0; i < kDecodeRows * kHeads; i += 4) {
        float w[4];
        load_four(weights + at * kHeads + i, w);
        for (int k = 0; k < 4; ++k) {
          const int r = (i + k) / kHeads, h = (i + k) % kHeads;
          for (int c = 0; c < kLaneElements; ++c) sums[h][c] = fmaf(w[k], values[r][c], sums[h][c]);
        }
      }
    }
  }

  /// Adds the groups' sums: within each warp by shuffles, then over the warps in order.
  __device__ void write_sums(float (&sums)[kHeads][kLaneElements]) {
    for (int h = 0; h < kHeads; ++h) {
      for (int i = 0; i < kLaneElements; ++i) {
        for (int step = kLanes; step < kWarp; step *= 2)
          sums[h][i] += __shfl_xor_sync(0xFFFFFFFF, sums[h][i], step);
      }
      for (int i = 0; i < kLaneElements && lane() < kLanes; i += 4) {
        *reinterpret_cast<float4*>(weights + (warp() * kHeads + h) * kWidth +
                                   column_offset<kLanes>(column + i)) = {
            sums[h][i], sums[h][i + 1], sums[h][i + 2], sums[h][i + 3]};
      }
    }
    __syncthreads();
    for (int i = thread(); i < heads * a.head_dim; i += kDecodeThreads) {
      const int h = i / a.head_dim, c = i % a.head_dim;
      float sum = 0;
      for (int w = 0; w < kDecodeWarps; ++w)
        sum += weights[(w * kHeads + h) * kWidth + column_offset<kLanes>(c)];
      a.sums[static_cast<std::size_t>(partial + h) * a.head_dim + c] = sum;
    }
  }
};

/// One block computes one segment: its maximum, sum and weighted values.
template <typename T, int kLanes, int kHeads>
__global__ void __launch_bounds__(kDecodeThreads, kBlocks<T, kHeads>) segment_kernel(Arguments a) {
  Segment<T, kLanes, kHeads> segment(a);
  segment.find_rows();
  __syncthreads();
  segment.compute_scores();
  segment.load(segment.group * kDecodeRows, a.value_offset);
  __syncthreads();
  segment.apply_softmax();
  __syncthreads();
  float sums[kHeads][kLaneElements] = {};
  segment.accumulate_values(sums);
  __syncthreads();  // the weights have been read: their memory can be reused
  segment.write_sums(sums);
}

/// Merges the segments of block (job, head).  Groups of threads, with four columns per thread,
/// process the segments round-robin; then their sums are added in order.  Shared memory: sums
/// [groups][head_dim].
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(Arguments a) {
  const DecodeJob job = a.jobs[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  if (head >= job.heads) return;
  const int quads = a.head_dim / 4, groups = kMergeThreads / quads;
  const int group = thread / quads, quad = thread % quads;
  const auto at = [&](int s) { return job.partial + s * job.heads + head; };
  auto* shared = reinterpret_cast<float*>(shared_memory());

  const int segments = job.segments();
  float m = kMasked, l = 0;  // every warp computes both
  for (int s = thread % kWarp; s < segments; s += kWarp) m = fmaxf(m, a.stats[at(s)].m);
  m = warp_max(m);
  for (int s = thread % kWarp; s < segments; s += kWarp)
    l = fmaf(a.stats[at(s)].l, exp2f(a.stats[at(s)].m - m), l);
  l = warp_sum(l);

  if (group < groups) {
    float sum[4] = {};
    for (int s = group; s < segments; s += groups) {
      const float w = exp2f(a.stats[at(s)].m - m);
      float x[4];
      load_four(a.sums + static_cast<std::size_t>(at(s)) * a.head_dim + quad * 4, x);
      for (int i = 0; i < 4; ++i) sum[i] = fmaf(w, x[i], sum[i]);
    }
    for (int i = 0; i < 4; ++i) shared[group * a.head_dim + quad * 4 + i] = sum[i];
  }
  __syncthreads();
  for (int c = thread; c < a.head_dim; c += kMergeThreads) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += shared[g * a.head_dim + c];
    job.out[head * a.head_dim + c] = l > 0 ? sum / l : 0.0f;
  }
  if (thread == 0 && job.lse != nullptr) job.lse[head] = fmaf(m, static_cast<float>(kLn2), logf(l));
}

using SegmentKernel = void (*)(Arguments);

template <typename T, int kLanes>
SegmentKernel segment_kernel_for(int heads) {
  constexpr auto fits = [](int of_block, int blocks) {
    return shared_memory_fits(shared_bytes(kLanes, of_block, kLongestSegment), blocks);
  };
  static_assert(fits(1, kBlocks<T, 1>) && fits(4, kBlocks<T, 4>) &&
                fits(kMaxHeads, kBlocks<T, kMaxHeads>));
  return heads == 1   ? segment_kernel<T, kLanes, 1>
         : heads == 4 ? segment_kernel<T, kLanes, 4>
                      : segment_kernel<T, kLanes, kMaxHeads>;
}

template <typename T>
SegmentKernel segment_kernel_for(int lanes, int heads) {
  return lanes == 4    ? segment_kernel_for<T, 4>(heads)
         : lanes == 8  ? segment_kernel_for<T, 8>(heads)
         : lanes == 16 ? segment_kernel_for<T, 16>(heads)
                       : segment_kernel_for<T, 32>(heads);
}

/// Host arrays that are uploaded with one copy.
class UploadBatch {
 public:
  /// Adds an array that is the concatenation of pieces.  Returns its offset in bytes.
  template <typename T>
  std::size_t add(std::span<const std::span<const T>> pieces) {
    static constexpr std::byte kPadding[kAlignment] = {};
    push({kPadding, (kAlignment - size_ % kAlignment) % kAlignment});
    const std::size_t at = size_;
    for (const std::span<const T> piece : pieces) push(std::as_bytes(piece));
    return at;
  }
  template <typename T>
  std::size_t add(const std::vector<T>& values) {
    const std::span<const T> piece(values);
    return add<T>({&piece, 1});
  }
  const std::byte* upload(Context& context) const { return context.upload_pieces(pieces_); }

 private:
  static constexpr std::size_t kAlignment = 16;
  void push(std::span<const std::byte> piece) {
    pieces_.push_back(piece);
    size_ += piece.size();
  }

  std::vector<std::span<const std::byte>> pieces_;
  std::size_t size_ = 0;
};

/// The properties that the jobs of one launch share.
struct Shape {
  DType dtype;
  int head_dim, heads;  // heads of a block

  static Shape of(const AttentionJob& job) {
    const PageLayout& layout = job.keys->layout();
    const int heads = job.heads();
    return {layout.dtype, layout.head_dim, heads == 1 ? 1 : heads <= 4 ? 4 : kMaxHeads};
  }
  bool operator==(const Shape&) const = default;
};

void attend_group(Context& context, float scale, std::span<const AttentionJob* const> jobs,
                  const Shape& shape) {
  const DecodePlan plan = plan_decode(jobs, shape.heads);
  UploadBatch batch;
  const std::size_t jobs_at = batch.add(plan.jobs), tasks_at = batch.add(plan.tasks);
  const std::size_t pages_at = batch.add<std::uint32_t>(plan.tables),
                    slots_at = batch.add<std::int32_t>(plan.lists),
                    heads_at = batch.add<std::uint32_t>(plan.heads);

  context.begin();
  const std::byte* uploaded = batch.upload(context);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const auto partials = static_cast<std::size_t>(plan.partials);
  const int lanes = shape.head_dim <= 32    ? 4
                    : shape.head_dim <= 64  ? 8
                    : shape.head_dim <= 128 ? 16
                                            : 32;
  const int at_once = kDecodeThreads / lanes * kDecodeRows;
  const ElementLayout layout{shape.head_dim, shape.dtype};
  const Arguments arguments = {reinterpret_cast<const DecodeJob*>(uploaded + jobs_at),
                               reinterpret_cast<const DecodeTask*>(uploaded + tasks_at),
                               reinterpret_cast<const std::uint32_t*>(uploaded + pages_at),
                               reinterpret_cast<const std::int32_t*>(uploaded + slots_at),
                               reinterpret_cast<const std::uint32_t*>(uploaded + heads_at),
                               context.scratch<Stats>(partials),
                               context.scratch<float>(partials * head_dim),
                               shape.head_dim,
                               (plan.longest_segment + at_once - 1) / at_once * at_once,
                               static_cast<std::uint32_t>(layout.row_bytes()),
                               static_cast<std::uint32_t>(layout.value_offset()),
                               static_cast<float>(scale * kLog2OfE)};
  const std::size_t shared = shared_bytes(lanes, shape.heads, arguments.capacity);
  with_type(shape.dtype, [&]<typename T>(T) {
    context.launch(segment_kernel_for<T>(lanes, shape.heads),
                   dim3(static_cast<unsigned>(plan.tasks.size())), dim3(kDecodeThreads), shared,
                   arguments);
  });
  context.launch(
      merge_kernel,
      dim3(static_cast<unsigned>(plan.jobs.size()), static_cast<unsigned>(plan.max_heads)),
      dim3(kMergeThreads), kMergeThreads * sizeof(float4), arguments);
}

}  // namespace

void attend_single_rows(Context& context, float scale, std::span<const AttentionJob* const> jobs) {
  std::vector<const AttentionJob*> rest(jobs.begin(), jobs.end());
  while (!rest.empty()) {
    const Shape shape = Shape::of(*rest[0]);
    const auto others =
        std::stable_partition(rest.begin(), rest.end(),
                              [&](const AttentionJob* job) { return Shape::of(*job) == shape; });
    attend_group(context, scale, {rest.data(), static_cast<std::size_t>(others - rest.begin())},
                 shape);
    rest.erase(rest.begin(), others);
  }
}

}  // namespace turnbench::cuda
