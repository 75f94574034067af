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

/// sums[j] += sum over the rows of exp(scale * s[r, j] - lse[r]), row by row.  s: [rows, 64]; lse:
/// [rows, 1]; sums: [64].
HWY_INLINE void add_rows(float scale, const float* HWY_RESTRICT s, MatrixView<const float> lse,
                         float* HWY_RESTRICT sums) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  const FloatVec scales = hn::Set(d, scale);
  for (std::int64_t j = 0; j < kTile; j += lanes) {
    FloatVec sum = hn::LoadU(d, sums + j);
    for (std::int64_t r = 0; r < lse.rows; ++r) {
      const FloatVec shift = hn::Set(d, lse(r, 0));
      sum = hn::Add(sum, exp_ps(d, hn::MulSub(hn::LoadU(d, s + r * kTile + j), scales, shift)));
    }
    hn::StoreU(sum, d, sums + j);
  }
}

/// Writes to `s` [rows, 64] the scores of head h's rows from `first` on for a tile's keys; -inf if
/// a row does not see a key.  Not inlined: inside other code the product would run out of
/// registers.
HWY_NOINLINE void tile_scores(const ColumnJob& job, int first, int h, const Tile& tile,
                              MatrixView<float> s) {
  const int head_dim = job.keys->layout().head_dim, rows = static_cast<int>(s.rows);
  const std::int32_t *positions = job.positions + first, *last = tile.positions + tile.count;
  const int columns = padded(tile.count);
  product(job.q.rows_at(first, rows).columns_at(h * head_dim, head_dim),
          {tile.kt, head_dim, columns, kTile}, s.columns_at(0, columns), false);
  const bool all_seen =
      tile.count == kTile && last[-1] <= positions[0] &&
      (job.sliding_window == 0 || tile.positions[0] > positions[rows - 1] - job.sliding_window);
  if (all_seen) return;
  for (int r = 0; r < rows; ++r) {
    float* row = s.row(r);
    std::fill(row + (std::upper_bound(tile.positions, last, positions[r]) - tile.positions),
              row + kTile, kMasked);
    if (job.sliding_window > 0) {
      std::fill(row,
                row + (std::upper_bound(tile.positions, last, positions[r] - job.sliding_window) -
                       tile.positions),
                kMasked);
    }
  }
}

/// Whether rows [first, first + rows) see no key of a tile, because it is after them or before
/// their window.
bool sees_nothing(const ColumnJob& job, int first, int rows, const Tile& tile) {
  const std::int32_t* positions = job.positions + first;
  return positions[rows - 1] < tile.positions[0] ||
         (job.sliding_window > 0 &&
          tile.positions[tile.count - 1] <= positions[0] - job.sliding_window);
}

/// Two hashes of each key's position, stored `n` apart: `first` is arbitrary, `second` even.
struct KeyHashes {
  std::uint32_t *first, *second;

  /// memory: [2 * n]
  KeyHashes(const std::int32_t* positions, std::int64_t n, std::uint32_t* memory)
      : first(memory), second(memory + n) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto position = static_cast<std::uint32_t>(positions[j]);
      first[j] = murmur3_finalizer(position);
      second[j] = murmur3_finalizer(~position) & ~1u;
    }
  }

  /// The finalizer of MurmurHash3, a bijection.
  static std::uint32_t murmur3_finalizer(std::uint32_t h) {
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
  }
};

/// An exponential variate for each key from `key` on: -ln u, with u in (0, 1) from the upper bits
/// of a product.  Each factor combines a hash of the key with half of the row's seed, so that
/// neither two rows nor two keys differ by a constant; one factor is odd, so that no bit is lost.
HWY_INLINE FloatVec exponential_variate(FloatTag d, std::uint64_t seed, const KeyHashes& keys,
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

/// Converts the scores [64] of one row for the keys from `key` on. x is the log-probability; Gumbel
/// noise is g = -ln E with E exponential.  At temperature 1 the result is the weight e^x / E, which
/// is also added to `sums` [16]; otherwise it is the logit (x + g) / temperature.
template <bool kWeighs, bool kGumbel>
void add_noise(float scale, float lse, std::uint64_t seed, float inverse_temperature,
               const KeyHashes& keys, std::size_t key, float* HWY_RESTRICT s,
               float* HWY_RESTRICT sums) {
  constexpr std::size_t kLanes = HWY_LANES(float), kSums = 16 / kLanes;
  const FloatTag d;
  const FloatVec scales = hn::Set(d, scale), shift = hn::Set(d, lse);
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kSums; ++v) {
    FloatVec sum = hn::LoadU(d, sums + v * kLanes);
#pragma GCC unroll 4
    for (std::size_t j = v * kLanes; j < kTile; j += 16) {
      FloatVec x = hn::MulSub(hn::LoadU(d, s + j), scales, shift);
      if constexpr (kWeighs) x = exp_ps(d, x);
      if constexpr (kGumbel) {
        const FloatVec e = exponential_variate(d, seed, keys, key + j);
        x = kWeighs ? hn::Div(x, e) : hn::Add(x, negative_log_ps(d, e));
      }
      if constexpr (kWeighs) {
        sum = hn::Add(sum, x);
      } else {
        x = hn::Mul(x, hn::Set(d, inverse_temperature));
      }
      hn::StoreU(x, d, s + j);
    }
    hn::StoreU(sum, d, sums + v * kLanes);
  }
}

/// Converts the logits s [n], n a multiple of 64, to weights and adds them to `sums` [16].
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

/// sums[j] += sum over the rows of weights[r, j] * factors[r], row by row.  weights: [rows, n], n a
/// multiple of 64; factors: [rows]; sums: [n].
HWY_INLINE void add_scaled_rows(MatrixView<const float> weights, const float* HWY_RESTRICT factors,
                                float* HWY_RESTRICT sums) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), n = weights.columns, rows = weights.rows;
  const std::int64_t ld = weights.stride;
  const float* HWY_RESTRICT first = weights.data;
  constexpr int kAtOnce = 4;  // chains that hide each other's latency
  for (std::int64_t j = 0; j < n; j += kAtOnce * lanes) {
    FloatVec sum[kAtOnce];
#pragma GCC unroll 4
    for (int v = 0; v < kAtOnce; ++v) sum[v] = hn::LoadU(d, sums + j + v * lanes);
    const float* row = first + j;
    for (std::int64_t r = 0; r < rows; ++r, row += ld) {
      const FloatVec factor = hn::Set(d, factors[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v)
        sum[v] = hn::MulAdd(hn::LoadU(d, row + v * lanes), factor, sum[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kAtOnce; ++v) hn::StoreU(sum[v], d, sums + j + v * lanes);
  }
}

/// One head's rows with noise.  A row must be divided by its sum before its columns are added, so
/// the scratch memory has a strip's weights over all keys [kNoisyRows, ld], then the column sums
/// [ld] and the keys' hashes [2 * ld]: kNoisyFloats * ld floats.
void sum_noisy_columns(const ColumnJob& job, float scale, const PackedSet& packed, int h,
                       float* scratch) {
  const KvHeadCache& keys = *job.keys;
  const int tiles = tiles_of(keys.size());
  const std::int64_t ld = weight_row_floats(keys.size());
  const MatrixView<float> cells(scratch, kNoisyRows, ld);
  const MatrixView<const std::uint64_t>& seeds = job.noise->seeds;
  const bool weighs = job.noise->inverse_temperature == 1;
  HWY_ALIGN float weights[kNoisyRows][16];  // sums of the rows' weights, every 16th
  float inverse[kNoisyRows];
  const auto add = weighs
                       ? add_noise<true, true>
                       : (seeds.data != nullptr ? add_noise<false, true> : add_noise<false, false>);
  float *sums = cells.row(kNoisyRows), *column = job.sums.row(h);
  std::fill(std::copy_n(column, keys.size(), sums), sums + ld, 0.0f);
  const KeyHashes hashes(packed.positions, std::int64_t{tiles} * kTile,
                         reinterpret_cast<std::uint32_t*>(sums + ld));
  for (int first = 0; first < job.rows(); first += kNoisyRows) {
    const int rows = std::min(kNoisyRows, job.rows() - first);
    std::fill_n(weights[0], kNoisyRows * 16, 0.0f);
    std::int64_t n = 0;
    for (int t = 0; t < tiles; ++t, n += kTile) {
      const Tile tile = shared_tile(keys, packed, t);
      if (tile.positions[0] > job.positions[first + rows - 1]) break;
      const float hidden = weighs ? 0 : kMasked;
      if (sees_nothing(job, first, rows, tile)) {
        for (int r = 0; r < rows; ++r) std::fill_n(&cells(r, n), kTile, hidden);
        continue;
      }
      tile_scores(job, first, h, tile, cells.rows_at(0, rows).columns_at(n, kTile));
      for (int r = 0; r < rows; ++r) {
        add(scale, job.lse(first + r, h), seeds.data == nullptr ? 0 : seeds(first + r, h),
            job.noise->inverse_temperature, hashes, n, &cells(r, n), weights[r]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      if (!weighs) weigh(cells.row(r), n, weights[r]);
      inverse[r] = 1 / sum16(weights[r]);
    }
    add_scaled_rows(cells.rows_at(0, rows).columns_at(0, n), inverse, sums);
  }
  std::copy_n(sums, keys.size(), column);
}

/// Tiles [begin, end) of the job's keys, for all heads and every row that sees some of these keys.
void sum_columns(const ColumnJob& job, float scale, int begin, int end, float* scratch) {
  const KvHeadCache& keys = *job.keys;
  const int head_dim = keys.layout().head_dim, tiles = end - begin, heads = job.heads();
  BumpAllocator bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  const MatrixView<float> sums(bump.floats(heads * tiles * kTile), heads, tiles * kTile);
  float* kt = bump.floats(tiles * kTile * head_dim);
  float* v = bump.floats(kTile * padded(head_dim));
  std::int32_t* at = bump.ints(tiles * kTile);
  std::vector<Tile> packed;
  for (int t = 0; t < tiles; ++t) {
    const int first = (begin + t) * kTile;
    packed.push_back(pack_tile(keys, nullptr, first, std::min(kTile, keys.size() - first),
                               kt + t * kTile * head_dim, v, at + t * kTile));
  }
  const int all = std::min(tiles * kTile, keys.size() - begin * kTile);
  const MatrixView<float> wanted = job.sums.columns_at(begin * kTile, all);
  std::fill_n(sums.data, sums.rows * sums.columns, 0.0f);
  for (int h = 0; h < heads; ++h) std::copy_n(wanted.row(h), all, sums.row(h));
  for (int first = 0; first < job.rows(); first += kStripRows) {
    const int rows = std::min(kStripRows, job.rows() - first);
    for (int h = 0; h < heads; ++h) {
      const MatrixView<const float> lse = job.lse.rows_at(first, rows).columns_at(h, 1);
      for (int t = 0; t < tiles; ++t) {
        const Tile& tile = packed[t];
        if (sees_nothing(job, first, rows, tile)) continue;
        tile_scores(job, first, h, tile, {s, rows, kTile});
        add_rows(scale, s, lse, sums.row(h) + t * kTile);
      }
    }
  }
  for (int h = 0; h < heads; ++h) std::copy_n(sums.row(h), all, wanted.row(h));
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(sum_columns);
HWY_EXPORT(sum_noisy_columns);

namespace {

// Tiles of keys per task, which processes all rows: with 8, the tiles stay in the second-level
// cache, and the rows' queries are read from memory once per 512 keys.
constexpr int kBlockTiles = 8;

/// Floats of scratch that `sum_columns` needs for kBlockTiles tiles.
std::int64_t block_floats(const ColumnJob& job) {
  const int head_dim = job.keys->layout().head_dim;
  return kTile * (kStripRows + padded(head_dim) + kBlockTiles * (job.heads() + head_dim + 1)) +
         16 * 8;
}

/// Jobs with noise; a task is one head, whose rows are processed in order.
void add_noisy_sums(ThreadPool& pool, float scale, std::span<const ColumnJob* const> jobs,
                    AttentionWorkspace& workspace) {
  std::vector<SetToPack> sets;
  for (const ColumnJob* job : jobs) sets.push_back({job->keys});
  for_each_packed_wave(
      pool, sets, workspace, [&](std::size_t begin, std::span<const PackedSet> packed) {
        std::int64_t scratch = 0;
        std::vector<std::pair<std::size_t, int>> tasks;  // job of the wave, head
        for (std::size_t i = 0; i < packed.size(); ++i) {
          const ColumnJob& job = *jobs[begin + i];
          scratch = std::max(scratch, kNoisyFloats * weight_row_floats(job.keys->size()));
          for (int h = 0; h < job.heads(); ++h) tasks.emplace_back(i, h);
        }
        pool.parallel_for(tasks.size(), [&](std::size_t i, int worker) {
          const auto [job, head] = tasks[i];
          HWY_DYNAMIC_DISPATCH(sum_noisy_columns)
          (*jobs[begin + job], scale, packed[job], head, workspace.worker[worker].get(scratch));
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
  std::int64_t scratch = 0;
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
    (*tasks[t].job, scale, tasks[t].begin, tasks[t].end, workspace.worker[worker].get(scratch));
  });
  add_noisy_sums(pool, scale, noisy, workspace);
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
