#include "inference/cuda/attention_tile.h"
#include "inference/cuda/key_stream.h"

// Attention of many rows over 16-bit keys on the tensor cores; see Dao, "FlashAttention-2" (2023).
// A block of four warps computes 64 or 128 rows of one head, each warp 16 or 32 of them, over the
// keys in tiles of 64.  Tiles are copied asynchronously into two stages of shared memory: one is
// loaded while the other is computed.  Scores, maxima, sums and output of a warp's rows are in
// registers, see attention_tile.h.

namespace turnbench::cuda {
namespace {

constexpr int kTileWarps = 4, kTileThreads = kTileWarps * kWarp;

/// Offsets in the shared memory of a block, in bytes, for 16-bit elements, head_dim up to kD and 16
/// kM rows per warp: two stages of keys and values [64, kD] each; the queries [kRows, kD]; three
/// KeyTiles; the KeyStream.  If queries are moved to registers at the start, they share the second
/// stage.
template <int kD, int kM>
struct RowsShared {
  static constexpr int kRows = kTileWarps * 16 * kM;
  static constexpr int kTileBytes = kTileKeys * kD * 2;
  static constexpr bool kQueriesMove = kM == 1 && kD <= 128;
  static constexpr int kQueries = kQueriesMove ? 2 * kTileBytes : 4 * kTileBytes;
  static constexpr int kTiles = 4 * kTileBytes + (kQueriesMove ? 0 : kRows * kD * 2);
  static constexpr int kStream = kTiles + 3 * static_cast<int>(sizeof(KeyTile));
  static constexpr int kBytes = kStream + static_cast<int>(sizeof(KeyStream));
};

/// The number of blocks that should share a multiprocessor; it limits the registers of a thread.
constexpr int resident_blocks(int head_dim, int m) {
  return head_dim > 128 ? 1 : m == 2 ? 2 : 3;
}

/// Writes a task's queries [kRows, kD] to shared memory, rounded to T; zeros for rows beyond the
/// job's.
template <typename T, int kD, int kM>
__device__ void load_queries(const RowsJob& job, const RowsTask& task, std::byte* queries) {
  constexpr int kPieces = kD / 8, kRows = RowsShared<kD, kM>::kRows;
  const int head_dim = job.keys.layout.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kTileThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    uint4 out = {0, 0, 0, 0};
    if (task.first + row < job.rows && piece * 8 < head_dim) {
      const auto* from = reinterpret_cast<const float4*>(job.q + (task.first + row) * job.q_stride +
                                                         task.head * head_dim + piece * 8);
      const float4 a = from[0], b = from[1];
      out = {pack(a.x, a.y, T{}), pack(a.z, a.w, T{}), pack(b.x, b.y, T{}), pack(b.z, b.w, T{})};
    }
    *reinterpret_cast<uint4*>(queries + swizzled_offset<kD>(row, piece)) = out;
  }
}

/// Starts the copies of `count` keys and values to a stage, [64, kD] each; zeros for the other rows
/// and beyond head_dim.  The keys are those in `slots` [64], or the page that begins with slot
/// `first`.  The addresses of listed keys must be loaded first, so many are loaded at once; for a
/// page this would only take registers.
template <int kD, bool kListed>
__device__ void load_tile(const SetView& keys, const std::int32_t* slots, int first, int count,
                          std::byte* stage) {
  constexpr int kPieces = kD / 8, kRowsAtOnce = kTileThreads / kPieces;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int first_row = static_cast<int>(threadIdx.x) / kPieces;
  const std::size_t row_bytes = keys.layout.row_bytes(), values = keys.layout.value_offset();
  const bool in_row = piece * 8 < keys.layout.head_dim;
  const std::byte* page = keys.pages[first / kPageTokens];
#pragma unroll(kListed ? 8 : 2)
  for (int i = 0; i < kTileKeys; i += kRowsAtOnce) {
    const int row = i + first_row;
    if (kRowsAtOnce > kTileKeys && row >= kTileKeys) break;
    int in_page = row;
    bool valid = in_row && row < count;
    if constexpr (kListed) {
      const int slot = slots[row];
      valid = valid && slot >= 0;
      page = keys.pages[max(slot, 0) / kPageTokens];
      in_page = max(slot, 0) % kPageTokens;
    }
    const std::byte* from = valid ? page + static_cast<std::size_t>(in_page) * row_bytes +
                                        static_cast<std::size_t>(piece) * 16
                                  : page;
    // The swizzle is the same for every 8 rows.
    std::byte* to = stage + swizzled_offset<kD>(i % 8 + first_row, piece) + i / 8 * 8 * kD * 2;
    copy_async(to, from, valid);
    copy_async(to + kTileKeys * kD * 2, from + values, valid);
  }
}

/// Writes out / sum and the log-sum-exp of a warp's rows, which begin with row `first` of the job.
template <int kD, int kM>
__device__ void write(const RowsJob& job, int head, int first, float scale,
                      const SoftmaxState<kD, kM>& state) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, head_dim = job.keys.layout.head_dim;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = state.sum[m][half];
      sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
      const int row = first + m * 16 + half * 8 + lane / 4;
      if (row >= job.rows) continue;
      const float inverse = sum > 0 ? 1 / sum : 0;
      float* out = job.out + row * job.out_stride + head * head_dim + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < kD / 8; ++d) {
        if (d * 8 < head_dim) {
          const float2 pair = {state.out[m][d][half * 2] * inverse,
                               state.out[m][d][half * 2 + 1] * inverse};
          *reinterpret_cast<float2*>(out + d * 8) = pair;
        }
      }
      if (job.lse != nullptr && lane % 4 == 0)
        job.lse[row * job.lse_stride + head] = state.max_score[m][half] * scale + logf(sum);
    }
  }
}

/// True if some row of a dense task does not see all keys of a page.
__device__ inline bool is_masked_page(const RowsTask& task, int page) {
  return page < task.unmasked_begin || page >= task.unmasked_end;
}

/// Starts the copies of the i-th tile of a task to `stage`: keys and values [64, kD] each.
/// Patterned tasks list the tile's slots in `tile`; of dense ones, `tile` receives positions if
/// they are needed.
template <int kD, bool kPatterned>
__device__ void load_task_tile(const SetView& keys, const RowsTask& task, int i, KeyTile& tile,
                               std::byte* stage) {
  if constexpr (kPatterned) {
    load_tile<kD, true>(keys, tile.slots, 0, tile.count, stage);
  } else {
    const int thread = static_cast<int>(threadIdx.x), first = (task.begin + i) * kTileKeys;
    load_tile<kD, false>(keys, nullptr, first, min(kTileKeys, keys.size - first), stage);
    constexpr int kAtOnce = 16 / sizeof(std::int32_t);
    if (is_masked_page(task, task.begin + i) && thread < kTileKeys / kAtOnce) {
      copy_async(tile.positions + thread * kAtOnce,
                 keys.pages[task.begin + i] + keys.layout.position_offset() + thread * 16, true);
    }
  }
}

/// Masks the scores of the i-th tile of a task for keys that the rows at `positions` [rows] do not
/// see.
template <int kM, bool kPatterned>
__device__ void mask_tile(const RowsJob& job, const RowsTask& task, int i, const KeyTile& tile,
                          const std::int32_t* positions, int rows,
                          float (&scores)[kM][kTileKeys / 8][4]) {
  if constexpr (kPatterned) {
    const PatternRows pattern(job, task.head);
    const auto mask_unseen = [&](auto by_pairs) {
      mask_scores<kM>(
          positions, rows,
          [&](std::int32_t row, int key) {
            return pattern.template sees<by_pairs.value>(row, tile.positions[key], tile.reach[key]);
          },
          scores);
    };
    if (pattern.offset_bits != nullptr) {
      mask_unseen(std::true_type{});
    } else {
      mask_unseen(std::false_type{});
    }
  } else {
    const int count = job.keys.size - (task.begin + i) * kTileKeys, reach = job.reach;
    mask_scores<kM>(
        positions, rows,
        [&](std::int32_t row, int key) {
          const std::int32_t position = tile.positions[key];
          return key < count && position <= row && row - position < reach;
        },
        scores);
  }
}

/// One block computes one task.  Patterned tasks take their tiles from a KeyStream, two tiles ahead
/// of the one being computed; dense tasks take pages in order.
template <typename T, int kD, int kM, bool kPatterned>
__global__ void __launch_bounds__(kTileThreads, resident_blocks(kD, kM))
    attend_rows_16(float scale, const RowsJob* jobs, const RowsTask* tasks) {
  using Layout = RowsShared<kD, kM>;
  std::byte* shared = shared_memory();
  std::byte* queries = shared + Layout::kQueries;
  auto* tiles = reinterpret_cast<KeyTile*>(shared + Layout::kTiles);
  auto* stream = reinterpret_cast<KeyStream*>(shared + Layout::kStream);
  const RowsTask& task = tasks[blockIdx.x];
  const RowsJob& job = jobs[task.job];
  const SetView& keys = job.keys;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, warp_row = warp * 16 * kM;
  const int rows = min(job.rows - task.first - warp_row, 16 * kM);  // rows of this warp, if any

  load_queries<T, kD, kM>(job, task, queries);
  if (kPatterned && warp == 0) {
    stream->start(job, task);
#pragma unroll 1
    for (int i = 0; i < 2; ++i) stream->next(tiles[i]);
  }
  __syncthreads();

  std::uint32_t held[kD / 16][4];
  const auto load_query = [&](int m, int k, std::uint32_t(&a)[4]) {
    load_matrices(a,
                  queries + (warp_row + m * 16) * kD * 2 + advance(fragment_offset_down<kD>(), k));
  };
  if constexpr (Layout::kQueriesMove) {
#pragma unroll
    for (int k = 0; k < kD / 16; ++k) load_query(0, k, held[k]);
  }

  // The i-th tile of the task.
  const auto exists = [&](int i) {
    return kPatterned ? tiles[i % 3].count > 0 : task.begin + i < task.end;
  };
  const auto is_masked = [&](int i) {
    return kPatterned ? tiles[i % 3].masked != 0 : is_masked_page(task, task.begin + i);
  };
  const auto stage_of = [&](int i) { return shared + i % 2 * 2 * Layout::kTileBytes; };
  const auto load = [&](int i) {
    load_task_tile<kD, kPatterned>(keys, task, i, tiles[i % 3], stage_of(i));
  };

  SoftmaxState<kD, kM> state;
  state.clear();
  if (exists(0)) load(0);
  commit_copies();
  for (int i = 0; exists(i); ++i) {
    wait_for_copies<0>();
    __syncthreads();  // this tile has arrived, and all warps have finished the previous one
    if (exists(i + 1)) load(i + 1);
    commit_copies();
    if (kPatterned && warp == 0) stream->next(tiles[(i + 2) % 3]);

    const KeyTile& tile = tiles[i % 3];
    const std::byte* stage = stage_of(i);
    if (rows <= 0) continue;
    const std::int32_t* positions = job.positions + task.first + warp_row;
    if (!kPatterned && is_masked(i) && tile.positions[0] > positions[rows - 1]) continue;
    float scores[kM][kTileKeys / 8][4];
    compute_scores<T, kD, kM>(
        [&](int m, int k, std::uint32_t(&a)[4]) {
          if constexpr (Layout::kQueriesMove) {
#pragma unroll
            for (int j = 0; j < 4; ++j) a[j] = held[k][j];
          } else {
            load_query(m, k, a);
          }
        },
        stage, scores);
    if (is_masked(i)) mask_tile<kM, kPatterned>(job, task, i, tile, positions, rows, scores);
    update_softmax<kD, kM>(scale * kLog2E, scores, state);
    accumulate_values<T, kD, kM>(scores, stage + Layout::kTileBytes, state);
  }
  write<kD, kM>(job, task.head, task.first + warp_row, scale, state);
}

template <typename T, int kD>
void launch(Context& context, float scale, const RowsPlan& plan) {
  constexpr int kM = kD > 128 ? 1 : 2;
  static_assert(shared_memory_fits(RowsShared<kD, kM>::kBytes, resident_blocks(kD, kM)));
  static_assert(shared_memory_fits(RowsShared<kD, 1>::kBytes, resident_blocks(kD, 1)));
  context.launch(attend_rows_16<T, kD, kM, false>, plan.dense.size, kTileThreads,
                 RowsShared<kD, kM>::kBytes, scale, plan.jobs, plan.dense.data);
  context.launch(attend_rows_16<T, kD, 1, true>, plan.patterned.size, kTileThreads,
                 RowsShared<kD, 1>::kBytes, scale, plan.jobs, plan.patterned.data);
}

}  // namespace

int dense_rows_16(int head_dim) {
  return head_dim > 128 ? 64 : 128;
}

void launch_rows_16(Context& context, float scale, const RowsPlan& plan) {
  with_type(plan.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (sizeof(T) == 2) {
      const auto with_width = plan.head_dim <= 16    ? launch<T, 16>
                              : plan.head_dim <= 32  ? launch<T, 32>
                              : plan.head_dim <= 64  ? launch<T, 64>
                              : plan.head_dim <= 128 ? launch<T, 128>
                                                     : launch<T, 256>;
      with_width(context, scale, plan);
    }
  });
}

}  // namespace turnbench::cuda
