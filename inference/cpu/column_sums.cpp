#include <algorithm>
#include <vector>

#include "inference/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/column_sums.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

/// sums[64] += the probabilities in `s` [rows][64] of scores whose log-sum-exp is `lse`, row by
/// row.
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
    const std::int32_t* positions = job.positions + first;
    for (std::size_t h = 0; h < heads; ++h) {
      const float* q = job.q + static_cast<std::size_t>(first) * job.q_stride +
                       h * static_cast<std::size_t>(head_dim);
      const float* lse = job.lse + static_cast<std::size_t>(first) * job.lse_stride + h;
      for (std::size_t t = 0; t < tiles; ++t) {
        const Tile& tile = packed[t];
        const std::int32_t* last = tile.positions + tile.count;
        if (positions[rows - 1] < tile.positions[0]) break;
        if (job.sliding_window > 0 && last[-1] <= positions[0] - job.sliding_window) continue;
        product(static_cast<std::size_t>(rows), kTile, static_cast<std::size_t>(head_dim), q,
                job.q_stride, tile.kt, kTile, s, kTile, false);
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
        }
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

namespace {

// Tiles of keys that one task takes every row through: with 8, they stay in the second cache and
// the rows' queries are read from memory once for 512 keys.
constexpr int kBlockTiles = 8;

std::size_t block_floats(const ColumnJob& job) {
  const int head_dim = job.keys->layout().head_dim;
  return kTile * (kStripRows + padded(head_dim) +
                  kBlockTiles * static_cast<std::size_t>(job.heads + head_dim + 1)) +
         16 * 8;
}

}  // namespace

void add_column_sums(ThreadPool& pool, float scale, std::span<const ColumnJob> jobs,
                     AttentionWorkspace& workspace) {
  struct Task {
    const ColumnJob* job;
    int begin, end;
  };
  std::vector<Task> tasks;
  std::size_t scratch = 0;
  for (const ColumnJob& job : jobs) {
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
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
