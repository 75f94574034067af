#pragma once

#include "inference/cuda/attention_rows.h"
#include "inference/cuda/device.h"

namespace turnbench::cuda {

/// A tile of up to 64 keys, in shared memory.
struct alignas(16) KeyTile {
  std::int32_t positions[kTileKeys];  ///< kEverywhere: no key; no row sees it
  std::int32_t slots[kTileKeys];      ///< -1: no key
  std::int32_t reach[kTileKeys];      ///< rows less than `reach` positions after the key see it
  int count;                          ///< number of keys; 0: there are no more tiles
  int masked;                         ///< some row of the block does not see some key
};

/// Decides which keys of a patterned tile a row sees.
struct PatternRows {
  std::int32_t first_dense_row;  ///< rows from this position on see all keys within `job_reach`
  int job_reach;
  const std::uint32_t* offset_bits;  ///< null if no slash lines are decided pair by pair

  __device__ explicit PatternRows(const RowsJob& job, int head)
      : first_dense_row(kEverywhere), job_reach(job.reach), offset_bits(nullptr) {
    const PatternView& p = job.patterns[head];
    if (p.kind == HeadPattern::Kind::kBand) first_dense_row = p.first_dense_row;
    if (p.kind == HeadPattern::Kind::kVerticalSlash && p.lines_exact) offset_bits = p.offset_bits;
  }
  /// True if the row at position `row` sees the key at position `key`.  kByPairs: `offset_bits` is
  /// not null.  Has no branches, so that the words of many pairs are loaded at once.
  template <bool kByPairs>
  __device__ bool sees(std::int32_t row, std::int32_t key, std::int32_t reach) const {
    const std::int32_t distance = row - key, behind = max(distance, 0);
    bool seen = (distance < reach) | ((row >= first_dense_row) & (distance < job_reach));
    if constexpr (kByPairs) seen |= (offset_bits[behind / 32] >> (behind % 32) & 1) != 0;
    return (distance >= 0) & seen;
  }
};

/// The keys that a block of 64 rows of a patterned head reads: the union over its rows (see
/// pattern_keys), ascending, in tiles of 64.  One warp generates them from a state in shared
/// memory, in rounds.  In a round each lane has one run of consecutive keys, and the vertical
/// columns between the previous run and its own.  Only the keys of a tile are ever listed, so the
/// work is linear in the number of keys read.
class KeyStream {
 public:
  /// Begins the stream of a task.  Must be called by all lanes of one warp.
  __device__ void start(const RowsJob& job, const RowsTask& task) {
    if (lane() == 0) {
      const PatternView& p = job.patterns[task.head];
      job_ = &job;
      pattern_ = &p;
      first_row_ = task.first;
      first_ = job.positions[task.first];
      const int rows = min(kPatternBlock, job.rows - task.first);
      end_ = job.positions[task.first + rows - 1] + 1;
      low_ = max(0, job.reach == kEverywhere ? 0 : first_ - job.reach + 1);
      reached_ = chain_end_ = 0;
      // Offsets are taken in descending order; those beyond all rows are skipped.
      next_ = p.kind == HeadPattern::Kind::kVerticalSlash
                  ? p.offset_count - lower_bound(p.offsets, p.offset_count, first_ + kPatternBlock)
                  : 0;
      finished_ = 0;
      taken_ = before_[kWarp] = 0;
    }
    __syncwarp();
  }

  /// Makes the next tile.  Must be called by all lanes of the same warp.
  __device__ void next(KeyTile& tile) {
    int filled = 0, taken = taken_;
    while (filled < kTileKeys) {
      const int take = min(kTileKeys - filled, before_[kWarp] - taken);
      for (int i = lane(); i < take; i += kWarp) put(taken + i, tile, filled + i);
      filled += take;
      taken += take;
      if (filled == kTileKeys || finished_ != 0) break;
      next_round();
      taken = 0;
    }
    for (int i = filled + lane(); i < kTileKeys; i += kWarp) {
      tile.slots[i] = -1;
      tile.positions[i] = kEverywhere;
      tile.reach[i] = 0;
    }
    __syncwarp();
    bool all = true;
    for (int i = lane(); i < kTileKeys; i += kWarp) {
      all = all && tile.positions[i] <= first_ && end_ - 1 - tile.positions[i] < tile.reach[i];
    }
    const unsigned lanes = __ballot_sync(0xFFFFFFFF, all);
    if (lane() == 0) {
      taken_ = taken;
      tile.count = filled;
      tile.masked = lanes != 0xFFFFFFFF;
    }
    __syncwarp();
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  /// The first index of an ascending list with a value of at least `wanted`.
  __device__ static int lower_bound(const std::int32_t* list, int count, std::int32_t wanted) {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (list[middle] < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  __device__ int slot_of(std::int32_t position) const {  // the first slot at or after the position
    const SetView& keys = job_->keys;
    return keys.contiguous ? min(position, keys.size) : keys.lower_bound(position);
  }

  /// Writes the item-th key of the round to the tile, at index `at`.
  __device__ void put(int item, KeyTile& tile, int at) const {
    const PatternView& p = *pattern_;
    const SetView& keys = job_->keys;
    int source = 0;  // the lane with this item
    for (int step = kWarp / 2; step > 0; step /= 2) {
      if (before_[source + step] <= item) source += step;
    }
    const int within = item - before_[source];
    const bool is_column = within < column_count_[source];
    std::int32_t position;
    int slot;
    if (is_column) {
      position = p.columns[column_[source] + within];
      slot = slot_of(position);
      if (slot >= keys.size || (!keys.contiguous && keys.position(slot) != position)) {
        position = kEverywhere;  // evicted
        slot = -1;
      }
    } else {
      slot = slot_[source] + within - column_count_[source];
      position = keys.contiguous ? slot : keys.position(slot);
    }
    int reach = job_->reach;
    if (p.kind == HeadPattern::Kind::kBand && position >= p.sinks && first_ < p.first_dense_row)
      reach = min(reach, p.local);
    if (p.kind == HeadPattern::Kind::kVerticalSlash && p.lines_exact && !is_column &&
        (p.column_bits[position / 32] >> (position % 32) & 1) == 0)
      reach = 0;
    tile.slots[at] = slot;
    tile.positions[at] = position;
    tile.reach[at] = reach;
  }

  /// Begins the next round: finds the runs of up to 32 further parts of the pattern, one per lane.
  __device__ void next_round() {
    const PatternView& p = *pattern_;
    // This lane's run of positions [begin, end).  Runs ascend over the lanes; those of idle lanes
    // are empty and at the end of the keys.
    std::int32_t begin = end_, end = end_;
    int next = next_, chain_end = chain_end_;
    bool finished = true;
    switch (p.kind) {
      case HeadPattern::Kind::kDense:
        if (lane() == 0) begin = 0;
        break;
      case HeadPattern::Kind::kBand:
        band_run(begin, end);
        break;
      case HeadPattern::Kind::kVerticalSlash:
        if (p.lines_exact) {
          diagonal_runs(next, begin, end);
          finished = next > p.offset_count;
        } else {
          finished = slash_runs(next, chain_end, begin, end);
        }
        break;
      case HeadPattern::Kind::kBlocks:
        finished = block_runs(next, begin, end);
        break;
    }
    // Removes the positions that earlier lanes have, and positions that no row sees.
    std::int32_t before = __shfl_up_sync(0xFFFFFFFF, end, 1);
    if (lane() == 0) before = reached_;
    begin = min(max(begin, max(before, low_)), end_);
    const std::int32_t reached = __shfl_sync(0xFFFFFFFF, end, kWarp - 1);
    int column = 0, columns = 0;
    if (p.column_count > 0) {
      column = lower_bound(p.columns, p.column_count, max(before, low_));
      columns = max(0, lower_bound(p.columns, p.column_count, begin) - column);
    }
    const int slot = slot_of(begin), slots = max(0, slot_of(end) - slot);
    int sum = columns + slots;  // keys of the lanes up to this one
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFF, sum, static_cast<unsigned>(step));
      if (lane() >= step) sum += other;
    }
    __syncwarp();
    before_[lane() + 1] = sum;
    column_[lane()] = column;
    column_count_[lane()] = columns;
    slot_[lane()] = slot;
    if (lane() == 0) {
      before_[0] = 0;
      next_ = next;
      chain_end_ = chain_end;
      reached_ = reached;
      finished_ = finished;
    }
    __syncwarp();
  }

  __device__ void band_run(std::int32_t& begin, std::int32_t& end) const {
    const PatternView& p = *pattern_;
    const bool dense = end_ > p.first_dense_row;
    const std::int32_t local = dense ? 0 : max(0, first_ - p.local + 1);
    if (lane() == 0) {
      begin = 0;
      end = min(p.sinks, local);
    } else if (lane() == 1) {
      begin = local;
    }
  }

  /// One offset per lane, in descending order: the run has the keys of its diagonal in these rows.
  __device__ void diagonal_runs(int& next, std::int32_t& begin, std::int32_t& end) const {
    const PatternView& p = *pattern_;
    const int i = p.offset_count - 1 - next - lane();
    if (i >= 0) {
      begin = max(0, first_ - p.offsets[i]);
      end = max(0, end_ - p.offsets[i]);
    }
    next += kWarp;
  }

  /// The runs of the block kernel, as slash_runs in attention_pattern.cpp makes them, 64 keys per
  /// lane: of the ends beyond the last run, the nearest extends it or begins a new one.  Returns
  /// true if there are no more.
  __device__ bool slash_runs(int& next, int& chain_end, std::int32_t& begin,
                             std::int32_t& end) const {
    const PatternView& p = *pattern_;
    const auto stop_of = [&] {  // the end for this lane's offset of the 32 from `next` on
      const int i = p.offset_count - 1 - next - lane();
      return i < 0 ? 0 : max(first_ + kPatternBlock - p.offsets[i], kPatternBlock);
    };
    std::int32_t stop = stop_of();
    for (int piece = 0; piece < kWarp; ++piece) {
      unsigned beyond = __ballot_sync(0xFFFFFFFF, stop > chain_end);
      while (beyond == 0) {
        next += kWarp;
        if (next >= p.offset_count) return true;
        stop = stop_of();
        beyond = __ballot_sync(0xFFFFFFFF, stop > chain_end);
      }
      const std::int32_t nearest =
          __shfl_sync(0xFFFFFFFF, stop, __ffs(static_cast<int>(beyond)) - 1);
      chain_end = nearest <= chain_end + kPatternBlock ? chain_end + kPatternBlock : nearest;
      if (lane() == piece) {
        begin = min(chain_end - kPatternBlock, end_);
        end = min(chain_end, end_);
      }
    }
    return false;
  }

  /// One key block of the rows' list per lane.  Returns true if there are no more.
  __device__ bool block_runs(int& next, std::int32_t& begin, std::int32_t& end) const {
    const PatternView& p = *pattern_;
    const std::int32_t* list = p.lists + first_row_ / p.block_rows;
    const int i = list[0] + next + lane();
    if (i < list[1]) {
      const std::int32_t at = p.blocks[i] * p.block_size - p.lead;
      begin = min(max(0, at), end_);
      end = min(at + p.block_size, end_);
    }
    next += kWarp;
    return list[0] + next >= list[1];
  }

  const RowsJob* job_;
  const PatternView* pattern_;
  int first_row_;             // index of the block's first row in the job
  std::int32_t first_, end_;  // positions [first_, end_) of the rows
  std::int32_t low_;          // no row sees a position before this one
  std::int32_t reached_;      // the rounds so far have covered the positions before this one
  std::int32_t chain_end_;    // end of the last of slash_runs
  int next_;                  // the first offset (counted from the last) or block of the next round
  int finished_;              // the current round is the last
  int taken_;                 // number of the round's keys that have been put into tiles
  // The current round.  Lane l has its keys [before_[l], before_[l + 1]): first column_count_[l]
  // columns of the pattern from index column_[l] on, then slots from slot_[l] on.
  int before_[kWarp + 1], column_[kWarp], column_count_[kWarp], slot_[kWarp];
};

}  // namespace turnbench::cuda
