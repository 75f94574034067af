#include <algorithm>
#include <cmath>
#include <vector>

#include "inference/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/column_sums.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// sums[64] += exp(scale * s - norm), row by row of `s` [rows][64].
HWY_INLINE void add_rows(float scale, const float* HWY_RESTRICT s, int rows, const float* norm,
                         std::size_t norm_stride, float* HWY_RESTRICT sums) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const FloatVec scales = hn::Set(d, scale);
  for (std::size_t j = 0; j < kTile; j += lanes) {
    FloatVec sum = hn::LoadU(d, sums + j);
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      const FloatVec shift = hn::Set(d, norm[row * norm_stride]);
      sum = hn::Add(sum, exp_ps(d, hn::MulSub(hn::LoadU(d, s + row * kTile + j), scales, shift)));
    }
    hn::StoreU(sum, d, sums + j);
  }
}

/// Scores [64] of one row and the keys at `positions` become (log-probability + noise) /
/// temperature.  The noise of a pair is -ln(-ln u), with u in (0, 1) from a hash of the row's seed
/// and the key's position (the finalizer of MurmurHash3).
HWY_INLINE void add_noise(float scale, float lse, const RowNoise& noise, std::size_t at,
                          const std::int32_t* positions, float* HWY_RESTRICT s) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  const FloatVec scales = hn::Set(d, scale), shift = hn::Set(d, lse),
                 inverse = hn::Set(d, noise.inverse_temperature);
  const std::uint64_t seed = noise.seeds == nullptr ? 0 : noise.seeds[at];
  const auto low = hn::Set(du, static_cast<std::uint32_t>(seed)),
             high = hn::Set(du, static_cast<std::uint32_t>(seed >> 32));
  for (std::size_t j = 0; j < kTile; j += hn::Lanes(d)) {
    FloatVec x = hn::MulSub(hn::LoadU(d, s + j), scales, shift);
    if (noise.seeds != nullptr) {
      auto h = hn::BitCast(du, hn::LoadU(di, positions + j));
      h = hn::Add(hn::Mul(h, hn::Set(du, 0x9E3779B1u)), low);
      h = hn::Xor(hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, 0x85EBCA6Bu)), high);
      h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(du, 0xC2B2AE35u));
      h = hn::Xor(h, hn::ShiftRight<16>(h));
      const FloatVec u = hn::Mul(
          hn::Add(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<9>(h))), hn::Set(d, 0.5f)),
          hn::Set(d, 0x1p-23f));
      x = hn::Sub(x, hn::Log(d, hn::Neg(hn::Log(d, u))));
    }
    hn::StoreU(hn::Mul(x, inverse), d, s + j);
  }
}

/// Leaves in `s` [rows][64] what the rows from `first` count of a tile: scores or, where there is
/// noise, its logits; -inf where a row does not see a key.
HWY_INLINE void tile_scores(const ColumnJob& job, float scale, int first, int rows, std::size_t h,
                            const Tile& tile, float* s) {
  const auto head_dim = static_cast<std::size_t>(job.keys->layout().head_dim);
  const std::int32_t *positions = job.positions + first, *last = tile.positions + tile.count;
  product(static_cast<std::size_t>(rows), kTile, head_dim,
          job.q + static_cast<std::size_t>(first) * job.q_stride + h * head_dim, job.q_stride,
          tile.kt, kTile, s, kTile, false);
  for (int r = 0; r < rows; ++r) {
    float* row = s + r * kTile;
    const std::int32_t position = positions[r];
    std::fill(row + (std::upper_bound(tile.positions, last, position) - tile.positions),
              row + kTile, kMasked);
    if (job.sliding_window > 0) {
      std::fill(row,
                row + (std::upper_bound(tile.positions, last, position - job.sliding_window) -
                       tile.positions),
                kMasked);
    }
    if (job.noise == nullptr) continue;
    const std::size_t at = static_cast<std::size_t>(first + r) * job.lse_stride + h;
    add_noise(scale, job.lse[at], *job.noise, at, tile.positions, row);
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

/// The log of what each of the rows from `first` sums to under the job's noise, all heads.
void normalise_rows(const ColumnJob& job, float scale, int first, float* scratch) {
  const KvSet& keys = *job.keys;
  const int head_dim = keys.layout().head_dim, rows = std::min(kStripRows, job.rows - first);
  const auto heads = static_cast<std::size_t>(job.heads);
  Bump bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  float* kt = bump.floats(kTile * static_cast<std::size_t>(head_dim));
  float* v = bump.floats(kTile * padded(head_dim));
  std::int32_t* at = bump.ints(kTile);
  const auto state = SoftmaxState::in(bump.floats(SoftmaxState::floats(heads * kStripRows, 0)),
                                      heads * kStripRows, 0);
  state.clear(heads * kStripRows);
  for (int t = 0; t < keys.size(); t += kTile) {
    const Tile tile = pack_tile(keys, nullptr, t, std::min(kTile, keys.size() - t), kt, v, at);
    if (sees_nothing(job, first, rows, tile)) continue;
    for (std::size_t h = 0; h < heads; ++h) {
      tile_scores(job, scale, first, rows, h, tile, s);
      for (int r = 0; r < rows; ++r) {
        const std::size_t i = h * kStripRows + static_cast<std::size_t>(r);
        softmax_row(1, s + r * kTile, state.m[i], state.l[i], nullptr, 0);
      }
    }
  }
  for (std::size_t h = 0; h < heads; ++h) {
    for (int r = 0; r < rows; ++r) {
      const std::size_t i = h * kStripRows + static_cast<std::size_t>(r);
      job.noise->log_norm[static_cast<std::size_t>(first + r) * job.lse_stride + h] =
          state.m[i] + std::log(state.l[i]);
    }
  }
}

/// Tiles [begin, end) of the job's keys: every row that sees some of them, all heads.
void sum_columns(const ColumnJob& job, float scale, int begin, int end, float* scratch) {
  const KvSet& keys = *job.keys;
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
      const float* norm = (job.noise == nullptr ? job.lse : job.noise->log_norm) +
                          static_cast<std::size_t>(first) * job.lse_stride + h;
      for (std::size_t t = 0; t < tiles; ++t) {
        if (sees_nothing(job, first, rows, packed[t])) continue;
        tile_scores(job, scale, first, rows, h, packed[t], s);
        add_rows(job.noise == nullptr ? scale : 1, s, rows, norm, job.lse_stride,
                 sums + (h * tiles + t) * kTile);
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
HWY_EXPORT(normalise_rows);

namespace {

// Tiles of keys that one task takes every row through: with 8, they stay in the second cache and
// the rows' queries are read from memory once for 512 keys.
constexpr int kBlockTiles = 8;

std::size_t block_floats(const ColumnJob& job) {
  const int head_dim = job.keys->layout().head_dim;
  const auto heads = static_cast<std::size_t>(job.heads);
  return kTile * (kStripRows + padded(head_dim) +
                  kBlockTiles * (heads + static_cast<std::size_t>(head_dim) + 1)) +
         SoftmaxState::floats(heads * kStripRows, 0) + 16 * 8;
}

}  // namespace

void add_column_sums(ThreadPool& pool, float scale, std::span<const ColumnJob> jobs,
                     AttentionWorkspace& workspace) {
  struct Task {
    const ColumnJob* job;
    int begin, end;
  };
  std::vector<Task> norms, tasks;
  std::size_t scratch = 0;
  for (const ColumnJob& job : jobs) {
    scratch = std::max(scratch, block_floats(job));
    for (int r = (job.rows - 1) / kStripRows; job.noise != nullptr && r >= 0; --r)
      norms.push_back({&job, r * kStripRows, 0});
    const int tiles = tiles_of(job.keys->size());
    // Early keys are seen by more rows: the largest tasks first.
    for (int t = 0; t < tiles; t += kBlockTiles)
      tasks.push_back({&job, t, std::min(t + kBlockTiles, tiles)});
  }
  const auto memory = [&](int worker) {
    return workspace.worker[static_cast<std::size_t>(worker)].get(scratch);
  };
  pool.parallel_for(norms.size(), [&](std::size_t t, int worker) {
    HWY_DYNAMIC_DISPATCH(normalise_rows)
    (*norms[t].job, scale, norms[t].begin, memory(worker));
  });
  pool.parallel_for(tasks.size(), [&](std::size_t t, int worker) {
    HWY_DYNAMIC_DISPATCH(sum_columns)
    (*tasks[t].job, scale, tasks[t].begin, tasks[t].end, memory(worker));
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
