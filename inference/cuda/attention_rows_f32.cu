#include "inference/cuda/key_stream.h"

// Attention of many rows over float32 keys.  A block of 16 x 16 threads computes 64 rows of one
// head over the keys in tiles of 64.  Thread (y, x) computes the scores of rows 4 y to 4 y + 3 with
// the keys x, x + 16, x + 32 and x + 48, and of the output of these rows the columns [4 x, 4 x +
// 4), [64 + 4 x, 64 + 4 x + 4), and so on.

namespace turnbench::cuda {
namespace {

constexpr int kSide = 16, kFloatThreads = kSide * kSide;
constexpr int kFloatRows = kDenseRows32,
              kOwn = kFloatRows / kSide;  // rows per block and per thread
constexpr int kWeightPitch = kTileKeys + 4;

/// The stride of rows of queries, keys and values in floats: 4 more than their width, so that 4
/// floats of each of 8 consecutive rows come from all banks.
__device__ __host__ constexpr int pitch_of(int head_dim) {
  return head_dim + 4;
}

/// The shared memory of a block: queries [64, pitch]; the tile's keys, later its values [64,
/// pitch]; weights [64, kWeightPitch]; KeyTile; KeyStream; positions of the rows [64].
struct Shared {
  float *queries, *tile, *weights;
  KeyTile* keys;
  KeyStream* stream;
  std::int32_t* positions;

  __device__ explicit Shared(int head_dim) {
    queries = reinterpret_cast<float*>(shared_memory());
    tile = queries + kFloatRows * pitch_of(head_dim);
    weights = tile + kTileKeys * pitch_of(head_dim);
    keys = reinterpret_cast<KeyTile*>(weights + kFloatRows * kWeightPitch);
    stream = reinterpret_cast<KeyStream*>(keys + 1);
    positions = reinterpret_cast<std::int32_t*>(stream + 1);
  }
  static std::size_t bytes(int head_dim) {
    const int floats = (kFloatRows + kTileKeys) * pitch_of(head_dim) + kFloatRows * kWeightPitch;
    return static_cast<std::size_t>(floats) * sizeof(float) + sizeof(KeyTile) + sizeof(KeyStream) +
           kFloatRows * sizeof(std::int32_t);
  }
};

/// Loads the rows at byte `offset` of the pages (keys or values) for the keys of a tile; zeros
/// where the tile has no key.
__device__ void load_tile(const SetView& set, const KeyTile& keys, std::size_t offset,
                          float* tile) {
  const int head_dim = set.layout.head_dim, pieces = head_dim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kTileKeys * pieces; i += kFloatThreads) {
    const int row = i / pieces, piece = i % pieces, slot = max(0, keys.slots[row]);
    const std::byte* from = set.pages[slot / kPageTokens] + offset +
                            static_cast<std::size_t>(slot % kPageTokens) * set.layout.row_bytes() +
                            static_cast<std::size_t>(piece) * 16;
    copy_async(tile + row * pitch_of(head_dim) + piece * 4, from, keys.slots[row] >= 0);
  }
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
}

/// Makes the KeyTile of a page.  Must be called by all lanes of one warp.
__device__ void list_page(const RowsJob& job, const RowsTask& task, int page, KeyTile& tile) {
  const SetView& set = job.keys;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kTileKeys; i += kWarp) {
    const int slot = page * kTileKeys + i;
    const bool is_key = slot < set.size;
    tile.slots[i] = is_key ? slot : -1;
    tile.positions[i] = !is_key ? kEverywhere : set.contiguous ? slot : set.position(slot);
    tile.reach[i] = job.reach;
  }
  if (threadIdx.x % kWarp == 0) {
    tile.count = page < task.end ? kTileKeys : 0;
    tile.masked = page < task.unmasked_begin || page >= task.unmasked_end;
  }
}

__device__ inline float dot(float sum, float4 a, float4 b) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/// Maximum, or sum, over the 16 threads that share rows.
__device__ inline float row_max(float x) {
  for (int step = kSide / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, step));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int step = kSide / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, step);
  return x;
}

/// This thread's place in its block of 16 x 16.
__device__ inline int thread_x() {
  return static_cast<int>(threadIdx.x) % kSide;
}
__device__ inline int thread_y() {
  return static_cast<int>(threadIdx.x) / kSide;
}

/// Softmax state and output of a thread's kOwn rows, relative to their maximum scores.
template <int kGroups>
struct RowsState {
  float4 out[kOwn][kGroups] = {};
  float max_score[kOwn], sum[kOwn];  ///< sums over this thread's keys

  __device__ RowsState() {
    for (int i = 0; i < kOwn; ++i) {
      max_score[i] = kMasked;
      sum[i] = 0;
    }
  }
};

/// Copies the queries [64, head_dim] and the positions [64] of a task's rows; 0 and -1 for rows
/// beyond the job's.
__device__ inline void load_rows(const RowsJob& job, const RowsTask& task, const Shared& shared) {
  const int head_dim = job.keys.layout.head_dim, thread = static_cast<int>(threadIdx.x);
  const int rows = min(kFloatRows, job.rows - task.first);
  for (int i = thread; i < kFloatRows * head_dim; i += kFloatThreads) {
    const int row = i / head_dim, d = i % head_dim;
    shared.queries[row * pitch_of(head_dim) + d] =
        row < rows ? job.q[(task.first + row) * job.q_stride + task.head * head_dim + d] : 0;
  }
  if (thread < kFloatRows)
    shared.positions[thread] = thread < rows ? job.positions[task.first + thread] : -1;
}

/// scores = queries keys^T of a thread's rows and keys, unscaled.
__device__ inline void compute_scores(const Shared& shared, int head_dim,
                                      float (&scores)[kOwn][kOwn]) {
  const int pitch = pitch_of(head_dim), x = thread_x(), y = thread_y();
  for (int d = 0; d < head_dim; d += 4) {
    float4 q[kOwn], k[kOwn];
    for (int i = 0; i < kOwn; ++i) {
      q[i] = *reinterpret_cast<const float4*>(shared.queries + (y * kOwn + i) * pitch + d);
      k[i] = *reinterpret_cast<const float4*>(shared.tile + (x + i * kSide) * pitch + d);
    }
    for (int i = 0; i < kOwn; ++i) {
      for (int j = 0; j < kOwn; ++j) scores[i][j] = dot(scores[i][j], q[i], k[j]);
    }
  }
}

/// Masks the scores of pairs that a row does not see.
template <bool kPatterned>
__device__ void mask_scores(const RowsJob& job, const RowsTask& task, const Shared& shared,
                            float (&scores)[kOwn][kOwn]) {
  const KeyTile& keys = *shared.keys;
  const auto mask = [&](const auto& sees) {
    for (int i = 0; i < kOwn; ++i) {
      for (int j = 0; j < kOwn; ++j) {
        const int key = thread_x() + j * kSide;
        if (!sees(shared.positions[thread_y() * kOwn + i], keys.positions[key], keys.reach[key]))
          scores[i][j] = kMasked;
      }
    }
  };
  if constexpr (kPatterned) {
    const PatternRows pattern(job, task.head);
    const bool by_pairs = pattern.offset_bits != nullptr;
    mask([&](std::int32_t row, std::int32_t key, std::int32_t reach) {
      return by_pairs ? pattern.sees<true>(row, key, reach) : pattern.sees<false>(row, key, reach);
    });
  } else {
    mask([](std::int32_t row, std::int32_t key, std::int32_t reach) {
      return key <= row && row - key < reach;
    });
  }
}

/// Writes the weights 2^(factor (score - maximum)) to shared memory, [64, 64], and rescales the
/// state to the rows' new maxima.
template <int kGroups>
__device__ void update_softmax(float factor, const float (&scores)[kOwn][kOwn],
                               const Shared& shared, RowsState<kGroups>& state) {
  const int x = thread_x(), y = thread_y();
  for (int i = 0; i < kOwn; ++i) {
    float highest = state.max_score[i];
    for (float score : scores[i]) highest = fmaxf(highest, score);
    highest = row_max(highest);
    const float level = highest == kMasked ? 0 : highest * factor;
    const float keep = exp2f(fmaf(state.max_score[i], factor, -level));
    state.max_score[i] = highest;
    state.sum[i] *= keep;
    for (int g = 0; g < kGroups; ++g) {
      float4& o = state.out[i][g];
      o = {o.x * keep, o.y * keep, o.z * keep, o.w * keep};
    }
    for (int j = 0; j < kOwn; ++j) {
      const float weight = exp2f(fmaf(scores[i][j], factor, -level));
      state.sum[i] += weight;
      shared.weights[(y * kOwn + i) * kWeightPitch + x + j * kSide] = weight;
    }
  }
}

/// out += weights values, over the keys of the tile in order.
template <int kGroups>
__device__ void accumulate_values(const Shared& shared, int head_dim, RowsState<kGroups>& state) {
  const int pitch = pitch_of(head_dim), x = thread_x(), y = thread_y();
  for (int key = 0; key < kTileKeys; ++key) {
    for (int g = 0; g < kGroups; ++g) {
      const int d = (g * kSide + x) * 4;
      if (d >= head_dim) break;
      const float4 v = *reinterpret_cast<const float4*>(shared.tile + key * pitch + d);
      for (int i = 0; i < kOwn; ++i) {
        const float weight = shared.weights[(y * kOwn + i) * kWeightPitch + key];
        float4& o = state.out[i][g];
        o = {fmaf(weight, v.x, o.x), fmaf(weight, v.y, o.y), fmaf(weight, v.z, o.z),
             fmaf(weight, v.w, o.w)};
      }
    }
  }
}

/// Writes out = out / sum and the log-sum-exp of a thread's rows.
template <int kGroups>
__device__ void write(const RowsJob& job, const RowsTask& task, float scale,
                      const RowsState<kGroups>& state) {
  const int head_dim = job.keys.layout.head_dim, x = thread_x(), y = thread_y();
  for (int i = 0; i < kOwn; ++i) {
    const float total = row_sum(state.sum[i]), inverse = total > 0 ? 1 / total : 0;
    const int row = task.first + y * kOwn + i;
    if (row >= job.rows) continue;
    float* to = job.out + row * job.out_stride + task.head * head_dim;
    for (int g = 0; g < kGroups; ++g) {
      const int d = (g * kSide + x) * 4;
      if (d >= head_dim) break;
      const float4 o = state.out[i][g];
      *reinterpret_cast<float4*>(to + d) = {o.x * inverse, o.y * inverse, o.z * inverse,
                                            o.w * inverse};
    }
    if (job.lse != nullptr && x == 0)
      job.lse[row * job.lse_stride + task.head] = state.max_score[i] * scale + logf(total);
  }
}

/// One block computes one task; head_dim is at most 64 kGroups.
template <int kGroups, bool kPatterned>
__global__ void __launch_bounds__(kFloatThreads)
    attend_rows_32(float scale, const RowsJob* jobs, const RowsTask* tasks) {
  const RowsTask& task = tasks[blockIdx.x];
  const RowsJob& job = jobs[task.job];
  const SetView& set = job.keys;
  const int head_dim = set.layout.head_dim;
  const Shared shared(head_dim);
  const bool lists = threadIdx.x < kWarp;  // this warp builds the tiles' lists
  load_rows(job, task, shared);
  if (kPatterned && lists) shared.stream->start(job, task);

  RowsState<kGroups> state;
  for (int page = task.begin;; ++page) {
    if (kPatterned && lists) shared.stream->next(*shared.keys);
    if (!kPatterned && lists) list_page(job, task, page, *shared.keys);
    __syncthreads();
    if (shared.keys->count == 0) break;
    load_tile(set, *shared.keys, 0, shared.tile);
    float scores[kOwn][kOwn] = {};
    compute_scores(shared, head_dim, scores);
    if (shared.keys->masked != 0) mask_scores<kPatterned>(job, task, shared, scores);
    update_softmax(scale * kLog2E, scores, shared, state);
    __syncthreads();  // the keys have been read: values replace them
    load_tile(set, *shared.keys, set.layout.value_offset(), shared.tile);
    accumulate_values(shared, head_dim, state);
    __syncthreads();  // the values and their list have been read
  }
  write(job, task, scale, state);
}

template <int kGroups>
void launch(Context& context, float scale, const RowsPlan& plan) {
  const std::size_t bytes = Shared::bytes(plan.head_dim);
  context.launch(attend_rows_32<kGroups, false>, plan.dense.size, kFloatThreads, bytes, scale,
                 plan.jobs, plan.dense.data);
  context.launch(attend_rows_32<kGroups, true>, plan.patterned.size, kFloatThreads, bytes, scale,
                 plan.jobs, plan.patterned.data);
}

}  // namespace

void launch_rows_32(Context& context, float scale, const RowsPlan& plan) {
  const auto with_width = plan.head_dim <= 64    ? launch<1>
                          : plan.head_dim <= 128 ? launch<2>
                                                 : launch<4>;
  with_width(context, scale, plan);
}

}  // namespace turnbench::cuda
