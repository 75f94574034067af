// Column sums of the attention matrix over many rows: the product of queries and keys is
// recomputed, tile by tile, and normalized by the log-sum-exp of the preceding attention.  Only the
// sums of a tile's columns are stored.

#include <map>
#include <tuple>
#include <vector>

#include "inference/cuda/score_tile.h"
#include "inference/cuda/statistics.h"

namespace turnbench::cuda {
namespace {

/// Softmax statistics of a row with noise: its probabilities are exp(logit - top) * inverse.
struct Norm {
  float top, inverse;
};

/// A ColumnJob in device memory.
struct Task {
  SetView keys;
  const float* q;
  std::size_t q_stride;
  int heads, rows, window;
  bool rounded;  ///< queries are rounded to the keys' type
  const std::int32_t* positions;
  const float* lse;
  std::size_t lse_stride;
  float* sums;  ///< [heads][keys.size]

  // For noise:
  const std::uint64_t* seeds;  ///< [rows][heads]; null: none
  float inverse_temperature;
  Norm* norms;  ///< [heads][rows]
};

/// Logits (x + g) / temperature of log-probabilities x, with Gumbel noise g = -ln E, E exponential.
struct Noise {
  bool gumbel;
  float inverse_temperature;

  __device__ explicit Noise(const Task& task)
      : gumbel(task.seeds != nullptr), inverse_temperature(task.inverse_temperature) {}
  __device__ float logit(float x, std::uint64_t seed, KeyHash key) const {
    const float g = negative_log(exponential_variate(seed, key));
    return (x + (gumbel ? g : 0)) * inverse_temperature;
  }
};

/// The data of a row, in shared memory.
struct RowData {
  std::int32_t position;  ///< -1: no such row
  float lse;
  std::uint64_t seed;
  Norm norm;
};
constexpr std::int32_t kNoKey = 0x7FFFFFFF;  ///< position that no row sees

__device__ bool sees(const RowData& row, std::int32_t key, int window) {
  return key <= row.position && (window == 0 || key > row.position - window);
}

template <class Scores, bool kNoisy>
struct Block {
  // The addends of the sums are [64][kPitch], a column per key.  The pitch distributes the writes
  // of a warp over the banks.
  static constexpr int kPitch = Scores::kKeys + (Scores::kThreadsPerRow == 16 ? 16 : 8);

  /// Blocks that should share a multiprocessor.
  static constexpr int kResident = Scores::kMaxHeadDim <= 128 ? 2 : 1;

  static constexpr std::size_t shared_bytes(int head_dim) {
    return Scores::shared_bytes(head_dim) + kScoreRows * sizeof(RowData) +
           Scores::kKeys * (sizeof(std::int32_t) + sizeof(KeyHash)) +
           kScoreRows * kPitch * sizeof(float);
  }

  __device__ explicit Block(int head_dim)
      : scores(shared_memory(), head_dim),
        rows(reinterpret_cast<RowData*>(shared_memory() + Scores::shared_bytes(head_dim))),
        keys(reinterpret_cast<std::int32_t*>(rows + kScoreRows)),
        hashes(reinterpret_cast<KeyHash*>(keys + Scores::kKeys)),
        cells(reinterpret_cast<float*>(hashes + Scores::kKeys)) {}

  __device__ void load_keys(const SetView& set, int first) {
    scores.load_keys(set, first);
    for (int j = static_cast<int>(threadIdx.x); j < Scores::kKeys; j += kScoreThreads) {
      keys[j] = first + j < set.size ? set.position(first + j) : kNoKey;
      if constexpr (kNoisy) hashes[j] = hash_of(keys[j]);
    }
  }

  /// Loads rows [first, first + count) of a head into registers; `store_rows` writes them to shared
  /// memory.
  __device__ void load_rows(const Task& task, int head, int first, int count) {
    scores.load_queries(task.q + static_cast<std::size_t>(first) * task.q_stride +
                            static_cast<std::size_t>(head) * task.keys.layout.head_dim,
                        task.q_stride, count);
    const int r = static_cast<int>(threadIdx.x);
    next = {-1, 0, 0, {0, 0}};
    if (r >= count) return;
    const auto at = static_cast<std::size_t>(first + r), h = static_cast<std::size_t>(head);
    next.position = task.positions[at];
    next.lse = task.lse[at * task.lse_stride + h];
    if constexpr (kNoisy) {
      if (task.seeds != nullptr)
        next.seed = task.seeds[at * static_cast<std::size_t>(task.heads) + h];
      next.norm = task.norms[h * static_cast<std::size_t>(task.rows) + at];
    }
  }
  __device__ void store_rows(bool rounded) {
    scores.store_queries(rounded);
    if (threadIdx.x < kScoreRows) rows[threadIdx.x] = next;
  }

  Scores scores;
  RowData next;
  RowData* rows;
  std::int32_t* keys;
  KeyHash* hashes;
  float* cells;
};

/// The first row whose position is at least `wanted`.
__device__ int first_row_at(const Task& task, std::int64_t wanted) {
  int low = 0, high = task.rows;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (task.positions[middle] < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Adds the column sums.  Grid: (heads, tasks, tiles of keys).  A block computes one tile of keys
/// for all rows that see some of its keys, 64 rows at a time.  The probabilities go to shared
/// memory, from where thread j adds those of key j one by one in the order of the rows.  Tiles of
/// early keys, which most rows see, start first.
template <class Scores, bool kNoisy>
__global__ void __launch_bounds__(kScoreThreads, Block<Scores, kNoisy>::kResident)
    column_sums(const Task* tasks, float scale) {
  const Task& task = tasks[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x),
            first = static_cast<int>(blockIdx.z) * Scores::kKeys;
  if (head >= task.heads || first >= task.keys.size) return;
  const int count = smaller(Scores::kKeys, task.keys.size - first), window = task.window;
  const std::int32_t first_key = task.keys.position(first),
                     last_key = task.keys.position(first + count - 1);
  const int begin = first_row_at(task, first_key),
            end = window == 0 ? task.rows
                              : first_row_at(task, static_cast<std::int64_t>(last_key) + window);
  const Noise noise(task);
  Block<Scores, kNoisy> block(task.keys.layout.head_dim);
  block.load_keys(task.keys, first);
  block.load_rows(task, head, begin, smaller(kScoreRows, end - begin));
  const int column = static_cast<int>(threadIdx.x);
  float* sums = task.sums + static_cast<std::size_t>(head) * task.keys.size + first;
  float sum = column < count ? sums[column] : 0;
  for (int r0 = begin; r0 < end; r0 += kScoreRows) {
    block.store_rows(task.rounded);
    block.scores.wait_for_keys();
    __syncthreads();  // loads have arrived, and the previous cells have been added
    const int behind = end - r0 - kScoreRows;
    if (behind > 0) block.load_rows(task, head, r0 + kScoreRows, smaller(kScoreRows, behind));
    block.scores.compute();
#pragma unroll
    for (int i = 0; i < Scores::kRowsPerThread; ++i) {
      const int r = block.scores.row(i);
      const RowData row = block.rows[r];
      const bool sees_all = !kNoisy && sees(row, first_key, window) && sees(row, last_key, window);
      float cells[Scores::kKeysPerThread];
#pragma unroll
      for (int j = 0; j < Scores::kKeysPerThread; ++j) {
        const int c = block.scores.key(j);
        cells[j] = 0;
        if (!sees_all && !sees(row, block.keys[c], window)) continue;
        const float x = fmaf(block.scores.at(i, j), scale, -row.lse);
        cells[j] = kNoisy ? exp_of(noise.logit(x, row.seed, block.hashes[c]) - row.norm.top)
                          : Scores::exp(x);
      }
      block.scores.store(block.cells + r * block.kPitch, cells);
    }
    __syncthreads();
    if (column < count) {
#pragma unroll 16
      for (int r = 0; r < kScoreRows; ++r) {  // further rows are zero
        const float cell = block.cells[r * block.kPitch + column];
        sum = kNoisy ? fmaf(cell, block.rows[r].norm.inverse, sum) : sum + cell;
      }
    }
    if constexpr (kNoisy) __syncthreads();  // before the next rows' norms are written
  }
  block.scores.wait_for_keys();
  if (column < count) sums[column] = sum;
}

/// Merges the parts of a row from kParts threads in a tree.  In `parts`, `inverse` is the sum of
/// exp(logit - top) of the part.
template <int kParts>
__device__ Norm merge_norms(const Norm* parts) {
  float top = kMasked, x[kParts];
#pragma unroll
  for (int p = 0; p < kParts; ++p) top = fmaxf(top, parts[p].top);
#pragma unroll
  for (int p = 0; p < kParts; ++p)
    x[p] = top == kMasked ? 0 : parts[p].inverse * exp_of(parts[p].top - top);
#pragma unroll
  for (int step = kParts / 2; step > 0; step /= 2) {
#pragma unroll
    for (int p = 0; p < step; ++p) x[p] += x[p + step];
  }
  return {top, x[0] > 0 ? 1 / x[0] : 0};
}

/// Computes the norms of rows with noise.  Grid: (heads, tasks, blocks of 64 rows, the last first).
/// A block processes all tiles of keys that its rows see.  A thread finds maximum and sum of its
/// part of a row over all tiles; then the parts of a row are merged in a tree.
template <class Scores>
__global__ void __launch_bounds__(kScoreThreads, Block<Scores, true>::kResident)
    row_norms(const Task* tasks, float scale) {
  const Task& task = tasks[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x), blocks = (task.rows + kScoreRows - 1) / kScoreRows,
            r0 = (blocks - 1 - static_cast<int>(blockIdx.z)) * kScoreRows;
  if (head >= task.heads || r0 < 0) return;
  const int rows = smaller(kScoreRows, task.rows - r0);
  const int window = task.window;
  const Noise noise(task);
  Block<Scores, true> block(task.keys.layout.head_dim);
  block.load_rows(task, head, r0, rows);
  block.store_rows(task.rounded);
  const int end = task.keys.lower_bound(task.positions[r0 + rows - 1] + 1);
  int begin = 0;
  if (window > 0) {
    begin = task.keys.lower_bound(task.positions[r0] - window + 1);
    begin -= begin % Scores::kKeys;
  }
  float tops[Scores::kRowsPerThread], sums[Scores::kRowsPerThread];
#pragma unroll
  for (int i = 0; i < Scores::kRowsPerThread; ++i) {
    tops[i] = kMasked;
    sums[i] = 0;
  }
  for (int first = begin; first < end; first += Scores::kKeys) {
    __syncthreads();  // the previous tile has been used
    block.load_keys(task.keys, first);
    block.scores.wait_for_keys();
    __syncthreads();
    block.scores.compute();
#pragma unroll
    for (int i = 0; i < Scores::kRowsPerThread; ++i) {
      const RowData row = block.rows[block.scores.row(i)];
      float cells[Scores::kKeysPerThread], top = tops[i];
#pragma unroll
      for (int j = 0; j < Scores::kKeysPerThread; ++j) {
        const int c = block.scores.key(j);
        cells[j] = kMasked;
        if (!sees(row, block.keys[c], window)) continue;
        cells[j] =
            noise.logit(fmaf(block.scores.at(i, j), scale, -row.lse), row.seed, block.hashes[c]);
        top = fmaxf(top, cells[j]);
      }
      if (top != tops[i]) {
        sums[i] *= exp_of(tops[i] - top);
        tops[i] = top;
      }
      if (top == kMasked) continue;  // no key seen yet
#pragma unroll
      for (int j = 0; j < Scores::kKeysPerThread; ++j) sums[i] += exp_of(cells[j] - top);
    }
  }
  __syncthreads();
  auto* parts = reinterpret_cast<Norm*>(block.cells);  // [64][kThreadsPerRow]: top and sum
#pragma unroll
  for (int i = 0; i < Scores::kRowsPerThread; ++i)
    parts[block.scores.row(i) * Scores::kThreadsPerRow + block.scores.part()] = {tops[i], sums[i]};
  __syncthreads();
  const int r = static_cast<int>(threadIdx.x);
  if (r >= rows) return;
  task.norms[static_cast<std::size_t>(head) * static_cast<std::size_t>(task.rows) +
             static_cast<std::size_t>(r0 + r)] =
      merge_norms<Scores::kThreadsPerRow>(parts + r * Scores::kThreadsPerRow);
}

/// Tasks of one dtype and head_dim, either all or none with noise, and either all or none with
/// rounded queries.
template <class Scores>
void add(Context& context, float scale, const std::vector<Task>& tasks, bool noisy) {
  using Tile = Block<Scores, true>;
  static_assert(shared_memory_fits(Tile::shared_bytes(Scores::kMaxHeadDim), Tile::kResident));
  unsigned heads = 0, tiles = 0, blocks = 0;
  for (const Task& task : tasks) {
    heads = std::max(heads, static_cast<unsigned>(task.heads));
    tiles = std::max(tiles, static_cast<unsigned>((task.keys.size - 1) / Scores::kKeys + 1));
    blocks = std::max(blocks, static_cast<unsigned>((task.rows - 1) / kScoreRows + 1));
  }
  const auto count = static_cast<unsigned>(tasks.size());
  const Task* device = context.upload(tasks);
  const std::size_t shared = Tile::shared_bytes(tasks[0].keys.layout.head_dim);
  const auto launch = [&](void (*kernel)(const Task*, float), unsigned depth) {
    context.launch(kernel, {heads, count, depth}, kScoreThreads, shared, device, scale);
  };
  if (noisy) {
    launch(row_norms<Scores>, blocks);
    launch(column_sums<Scores, true>, tiles);
  } else {
    launch(column_sums<Scores, false>, tiles);
  }
}

Task make_task(Context& context, const ColumnJob& job) {
  const std::int64_t rows = job.q.rows, heads = job.heads();
  Task task = {};
  task.keys = context.view(*job.keys);
  task.q = job.q.data;
  task.q_stride = job.q.stride;
  task.heads = job.heads();
  task.rows = job.rows();
  task.window = job.sliding_window;
  task.rounded = rounds_queries(job);
  task.positions = context.upload(std::span(job.positions, rows));
  task.lse = job.lse.data;
  task.lse_stride = job.lse.stride;
  task.sums = context.scratch<float>(heads * job.keys->size());
  if (job.noise == nullptr) return task;
  task.inverse_temperature = job.noise->inverse_temperature;
  task.norms = context.scratch<Norm>(heads * rows);
  if (job.noise->seeds.data != nullptr) {
    std::vector<std::uint64_t> seeds;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint64_t* row = job.noise->seeds.row(r);
      seeds.insert(seeds.end(), row, row + heads);
    }
    task.seeds = context.upload(seeds);
  }
  return task;
}

/// Copies a job's sums to the device, or back.
void copy_sums(Context& context, const ColumnJob& job, const Task& task, bool back) {
  const std::size_t width = job.keys->size() * sizeof(float),
                    pitch = job.sums.stride * sizeof(float);
  const int heads = job.heads();
  check(back ? cudaMemcpy2DAsync(job.sums.data, pitch, task.sums, width, width, heads,
                                 cudaMemcpyDeviceToHost, context.stream())
             : cudaMemcpy2DAsync(task.sums, width, job.sums.data, pitch, width, heads,
                                 cudaMemcpyHostToDevice, context.stream()),
        "copying column sums");
}

}  // namespace

void add_column_sums(Context& context, float scale, std::span<const ColumnJob> jobs) {
  context.begin();
  std::map<std::tuple<DType, int, bool, bool>, std::vector<Task>> groups;
  std::vector<std::pair<const ColumnJob*, Task>> all;
  for (const ColumnJob& job : jobs) {
    if (job.q.rows == 0 || job.q.columns == 0 || job.keys->size() == 0) continue;
    const Task task = make_task(context, job);
    copy_sums(context, job, task, false);
    const PageLayout& layout = job.keys->layout();
    groups[{layout.dtype, layout.head_dim, task.rounded, job.noise != nullptr}].push_back(task);
    all.emplace_back(&job, task);
  }
  for (const auto& group : groups) {
    const auto& [dtype, head_dim, rounded, has_noise] = group.first;
    with_scores(dtype, head_dim, rounded,
                [&, with_noise = has_noise]<class Scores>(std::type_identity<Scores>) {
                  add<Scores>(context, scale, group.second, with_noise);
                });
  }
  for (const auto& [job, task] : all) copy_sums(context, *job, task, true);
  context.synchronize();
}

}  // namespace turnbench::cuda
