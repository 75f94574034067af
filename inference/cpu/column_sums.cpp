#include <algorithm>
#include <cmath>
#include <vector>

#include "inference/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/column_sums.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// sums[64] += exp(scale * s - lse), row by row of `s` [rows][64].
HWY_INLINE void add_rows(float scale, const float* HWY_RESTRICT s, int rows, const float* lse,
                         std::size_t lse_stride, float* HWY_RESTRICT sums) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const FloatVec scales = hn::Set(d, scale);
  for (std::size_t j = 0; j < kTile; j += lanes) {
    FloatVec sum = hn::LoadU(d, sums + j);
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      const FloatVec shift = hn::Set(d, lse[row * lse_stride]);
      sum = hn::Add(sum, exp_ps(d, hn::MulSub(hn::LoadU(d, s + row * kTile + j), scales, shift)));
    }
    hn::StoreU(sum, d, sums + j);
  }
}

/// Leaves in `s` [rows][ld] the scores of the rows from `first` and a tile's keys; -inf where a
/// row does not see a key.  Not inlined: beside other work the product would run out of registers.
HWY_NOINLINE void tile_scores(const ColumnJob& job, int first, int rows, std::size_t h,
                              const Tile& tile, float* s, std::size_t ld) {
  const auto head_dim = static_cast<std::size_t>(job.keys->layout().head_dim);
  const std::int32_t *positions = job.positions + first, *last = tile.positions + tile.count;
  const auto columns = (static_cast<std::size_t>(tile.count) + 15) / 16 * 16;
  product(static_cast<std::size_t>(rows), columns, head_dim,
          job.q + static_cast<std::size_t>(first) * job.q_stride + h * head_dim, job.q_stride,
          tile.kt, kTile, s, ld, false);
  const bool all_seen =
      tile.count == kTile && last[-1] <= positions[0] &&
      (job.sliding_window == 0 || tile.positions[0] > positions[rows - 1] - job.sliding_window);
  if (all_seen) return;
  for (int r = 0; r < rows; ++r, s += ld) {
    std::fill(s + (std::upper_bound(tile.positions, last, positions[r]) - tile.positions),
              s + kTile, kMasked);
    if (job.sliding_window > 0) {
      std::fill(s,
                s + (std::upper_bound(tile.positions, last, positions[r] - job.sliding_window) -
                     tile.positions),
                kMasked);
    }
  }
}

/// Whether rows [first, first + rows) see nothing of a tile, because it lies behind them or before
/// their window.
bool sees_nothing(const ColumnJob& job, int first, int rows, const Tile& tile) {
  const std::int32_t* positions = job.positions + first;
  return positions[rows - 1] < tile.positions[0] ||
         (job.sliding_window > 0 &&
          tile.positions[tile.count - 1] <= positions[0] - job.sliding_window);
}

/// Hashes of the keys' positions, each `n` apart from the other: `first` any, `second` even.
struct KeyHashes {
  std::uint32_t *first, *second;

  KeyHashes(const std::int32_t* positions, std::size_t n, std::uint32_t* memory)
      : first(memory), second(memory + n) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto position = static_cast<std::uint32_t>(positions[j]);
      first[j] = mixed(position);
      second[j] = mixed(~position) & ~1u;
    }
  }

  /// The finalizer of MurmurHash3, a bijection.
  static std::uint32_t mixed(std::uint32_t h) {
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
  }
};

/// A variate of the exponential distribution for each of the keys from `key`: -ln u, with u in
/// (0, 1) from the upper bits of a product.  Each factor has a key's hash and half of the row's
/// seed, so that neither two rows nor two keys differ by a constant; one is odd, so that no bit is
/// lost.
HWY_INLINE FloatVec exponential(FloatTag d, std::uint64_t seed, const KeyHashes& keys,
                                std::size_t key) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  const auto low = hn::Set(du, static_cast<std::uint32_t>(seed)),
             high = hn::Set(du, static_cast<std::uint32_t>(seed >> 32) | 1u);
  const auto h = hn::Mul(hn::Xor(hn::LoadU(du, keys.first + key), low),
                         hn::Add(hn::LoadU(du, keys.second + key), high));
  const FloatVec u = hn::MulAdd(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(h))),
                                hn::Set(d, 0x1p-23f), hn::Set(d, 0x1p-24f));
  return negative_log_ps(d, u);
}

/// Scores [64] of one row and the keys from `key` become what counts: with Gumbel noise g = -ln E,
/// E exponential, and at temperature 1 the weight e^x / E itself, x being the log-probability, and
/// `sums` [16] takes the weights; else the logit (x + g) / temperature.
template <bool kWeighs, bool kGumbel>
void add_noise(float scale, float lse, const RowNoise& noise, std::size_t row,
               const KeyHashes& keys, std::size_t key, float* HWY_RESTRICT s,
               float* HWY_RESTRICT sums) {
  constexpr std::size_t kLanes = HWY_LANES(float), kSums = 16 / kLanes;
  const FloatTag d;
  const FloatVec scales = hn::Set(d, scale), shift = hn::Set(d, lse);
  const std::uint64_t seed = kGumbel ? noise.seeds[row] : 0;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kSums; ++v) {
    FloatVec sum = hn::LoadU(d, sums + v * kLanes);
#pragma GCC unroll 4
    for (std::size_t j = v * kLanes; j < kTile; j += 16) {
      FloatVec x = hn::MulSub(hn::LoadU(d, s + j), scales, shift);
      if constexpr (kWeighs) x = exp_ps(d, x);
      if constexpr (kGumbel) {
        const FloatVec e = exponential(d, seed, keys, key + j);
        x = kWeighs ? hn::Div(x, e) : hn::Add(x, negative_log_ps(d, e));
      }
      if constexpr (kWeighs) {
        sum = hn::Add(sum, x);
      } else {
        x = hn::Mul(x, hn::Set(d, noise.inverse_temperature));
      }
      hn::StoreU(x, d, s + j);
    }
    hn::StoreU(sum, d, sums + v * kLanes);
  }
}

/// Makes weights of the logits s [n], n a multiple of 64, and adds them to `sums` [16].
HWY_INLINE void weigh(float* HWY_RESTRICT s, std::size_t n, float* HWY_RESTRICT sums) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  auto top = hn::Set(d, kMasked);
  for (std::size_t j = 0; j < n; j += lanes) top = hn::Max(top, hn::LoadU(d, s + j));
  top = hn::MaxOfLanes(d, top);
  for (std::size_t i = 0; i < 16; i += lanes) {
    auto sum = hn::LoadU(d, sums + i);
    for (std::size_t j = i; j < n; j += 16) {
      const auto weight = exp_ps(d, hn::Sub(hn::LoadU(d, s + j), top));
      hn::StoreU(weight, d, s + j);
      sum = hn::Add(sum, weight);
    }
    hn::StoreU(sum, d, sums + i);
  }
}

/// sums[j] += sum over the rows of weights[r * ld + j] * factors[r], row by row; n, a multiple
/// of 64.
HWY_INLINE void add_scaled_rows(const float* HWY_RESTRICT weights, std::size_t ld, std::size_t n,
                                int rows, const float* HWY_RESTRICT factors,
                                float* HWY_RESTRICT sums) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kAtOnce = 4;  // chains that hide each other's latency
  for (std::size_t j = 0; j < n; j += kAtOnce * lanes) {
    FloatVec sum[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kAtOnce; ++v) sum[v] = hn::LoadU(d, sums + j + v * lanes);
    const float* row = weights + j;
    for (int r = 0; r < rows; ++r, row += ld) {
      const FloatVec factor = hn::Set(d, factors[r]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kAtOnce; ++v)
        sum[v] = hn::MulAdd(hn::LoadU(d, row + v * lanes), factor, sum[v]);
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kAtOnce; ++v) hn::StoreU(sum[v], d, sums + j + v * lanes);
  }
}

/// One head's rows under noise.  A row has to be divided by its sum before any column can be
/// summed: a strip's weights over all keys stay at hand, [kNoisyRows][ld],
/// and behind them the column sums and the keys' hashes: kNoisyFloats * ld floats in all.
void sum_noisy_columns(const ColumnJob& job, float scale, const PackedSet& packed, std::size_t h,
                       float* scratch) {
  const KvHeadCache& keys = *job.keys;
  const int tiles = tiles_of(keys.size());
  const std::size_t ld = weight_row_floats(keys.size());
  const bool weighs = job.noise->inverse_temperature == 1;
  HWY_ALIGN float weights[kNoisyRows][16];  // sums of the rows' weights, every 16th
  float inverse[kNoisyRows];
  const auto add =
      weighs ? add_noise<true, true>
             : (job.noise->seeds != nullptr ? add_noise<false, true> : add_noise<false, false>);
  float *sums = scratch + kNoisyRows * ld, *column = job.sums + h * job.sums_stride;
  std::fill(std::copy_n(column, keys.size(), sums), sums + ld, 0.0f);
  const KeyHashes hashes(packed.positions, static_cast<std::size_t>(tiles) * kTile,
                         reinterpret_cast<std::uint32_t*>(sums + ld));
  for (int first = 0; first < job.rows; first += kNoisyRows) {
    const int rows = std::min(kNoisyRows, job.rows - first);
    std::fill_n(weights[0], kNoisyRows * 16, 0.0f);
    std::size_t n = 0;
    for (int t = 0; t < tiles; ++t, n += kTile) {
      const Tile tile = shared_tile(keys, packed, t);
      if (tile.positions[0] > job.positions[first + rows - 1]) break;
      const float hidden = weighs ? 0 : kMasked;
      if (sees_nothing(job, first, rows, tile)) {
        for (int r = 0; r < rows; ++r)
          std::fill_n(scratch + static_cast<std::size_t>(r) * ld + n, kTile, hidden);
        continue;
      }
      tile_scores(job, first, rows, h, tile, scratch + n, ld);
      for (int r = 0; r < rows; ++r) {
        const std::size_t row = static_cast<std::size_t>(first + r) * job.lse_stride + h;
        add(scale, job.lse[row], *job.noise, row, hashes, n,
            scratch + static_cast<std::size_t>(r) * ld + n, weights[r]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      if (!weighs) weigh(scratch + static_cast<std::size_t>(r) * ld, n, weights[r]);
      inverse[r] = 1 / sum16(weights[r]);
    }
    add_scaled_rows(scratch, ld, n, rows, inverse, sums);
  }
  std::copy_n(sums, keys.size(), column);
}

/// Tiles [begin, end) of the job's keys: every row that sees some of them, all heads.
void sum_columns(const ColumnJob& job, float scale, int begin, int end, float* scratch) {
  const KvHeadCache& keys = *job.keys;
  const int head_dim = keys.layout().head_dim;
  const auto tile_size = static_cast<std::size_t>(kTile) * static_cast<std::size_t>(head_dim);
  const auto tiles = static_cast<std::size_t>(end - begin),
             heads = static_cast<std::size_t>(job.heads);
  Bump bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  float* sums = bump.floats(heads * tiles * kTile);
  float* kt = bump.floats(tiles * tile_size);
  float* v = bump.floats(kTile * padded(head_dim));
  std::int32_t* at = bump.ints(tiles * kTile);
  std::vector<Tile> packed;
  for (std::size_t t = 0; t < tiles; ++t) {
    const int first = (begin + static_cast<int>(t)) * kTile;
    packed.push_back(pack_tile(keys, nullptr, first, std::min(kTile, keys.size() - first),
                               kt + t * tile_size, v, at + t * kTile));
  }
  const auto column = [&](std::size_t h, std::size_t t) {
    return job.sums + h * job.sums_stride +
           (static_cast<std::size_t>(begin) + t) * static_cast<std::size_t>(kTile);
  };
  std::fill_n(sums, heads * tiles * kTile, 0.0f);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < tiles; ++t)
      std::copy_n(column(h, t), packed[t].count, sums + (h * tiles + t) * kTile);
  }
  for (int first = 0; first < job.rows; first += kStripRows) {
    const int rows = std::min(kStripRows, job.rows - first);
    for (std::size_t h = 0; h < heads; ++h) {
      const float* lse = job.lse + static_cast<std::size_t>(first) * job.lse_stride + h;
      for (std::size_t t = 0; t < tiles; ++t) {
        if (sees_nothing(job, first, rows, packed[t])) continue;
        tile_scores(job, first, rows, h, packed[t], s, kTile);
        add_rows(scale, s, rows, lse, job.lse_stride, sums + (h * tiles + t) * kTile);
      }
    }
  }
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < tiles; ++t)
      std::copy_n(sums + (h * tiles + t) * kTile, packed[t].count, column(h, t));
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(sum_columns);
HWY_EXPORT(sum_noisy_columns);

namespace {

// Tiles of keys that one task takes every row through: with 8, they stay in the second cache and
// the rows' queries are read from memory once for 512 keys.
constexpr int kBlockTiles = 8;

std::size_t block_floats(const ColumnJob& job) {
  const int head_dim = job.keys->layout().head_dim;
  const auto heads = static_cast<std::size_t>(job.heads);
  return kTile * (kStripRows + padded(head_dim) +
                  kBlockTiles * (heads + static_cast<std::size_t>(head_dim) + 1)) +
         16 * 8;
}

/// Jobs with noise; a task is one head, whose rows go in order.
void add_noisy_sums(ThreadPool& pool, float scale, std::span<const ColumnJob* const> jobs,
                    AttentionWorkspace& workspace) {
  std::vector<const KvHeadCache*> sets;
  for (const ColumnJob* job : jobs) sets.push_back(job->keys);
  in_packed_waves(pool, sets, workspace, [&](std::size_t begin, std::span<const PackedSet> packed) {
    std::size_t scratch = 0;
    std::vector<std::pair<std::size_t, std::size_t>> tasks;  // job of the wave, head
    for (std::size_t i = 0; i < packed.size(); ++i) {
      const ColumnJob& job = *jobs[begin + i];
      scratch = std::max(scratch, kNoisyFloats * weight_row_floats(job.keys->size()));
      for (int h = 0; h < job.heads; ++h) tasks.emplace_back(i, h);
    }
    pool.parallel_for(tasks.size(), [&](std::size_t i, int worker) {
      const auto [job, head] = tasks[i];
      HWY_DYNAMIC_DISPATCH(sum_noisy_columns)
      (*jobs[begin + job], scale, packed[job], head,
       workspace.worker[static_cast<std::size_t>(worker)].get(scratch));
    });
  });
}

}  // namespace

void add_column_sums(ThreadPool& pool, float scale, std::span<const ColumnJob> jobs,
                     AttentionWorkspace& workspace) {
  struct Task {
    const ColumnJob* job;
    int begin, end;
  };
  std::vector<Task> tasks;
  std::vector<const ColumnJob*> noisy;
  std::size_t scratch = 0;
  for (const ColumnJob& job : jobs) {
    if (job.noise != nullptr) {
      noisy.push_back(&job);
      continue;
    }
    scratch = std::max(scratch, block_floats(job));
    const int tiles = tiles_of(job.keys->size());
    // Early keys are seen by more rows: the largest tasks first.
    for (int t = 0; t < tiles; t += kBlockTiles)
      tasks.push_back({&job, t, std::min(t + kBlockTiles, tiles)});
  }
  pool.parallel_for(tasks.size(), [&](std::size_t t, int worker) {
    HWY_DYNAMIC_DISPATCH(sum_columns)
    (*tasks[t].job, scale, tasks[t].begin, tasks[t].end,
     workspace.worker[static_cast<std::size_t>(worker)].get(scratch));
  });
  add_noisy_sums(pool, scale, noisy, workspace);
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
