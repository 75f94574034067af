#include "inference/cpu/attention.h"

#include <algorithm>
#include <cassert>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/attention.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

static_assert(kStripRows == kPatternBlock);

/// Packs tile `t` of a set into its place in the shared buffer.
void pack_shared(const KvHeadCache& set, const PackedSet& packed, int t) {
  const std::int64_t i = std::int64_t{t} * kTile;
  const int head_dim = set.layout().head_dim;
  pack_tile(set, nullptr, t * kTile, std::min(kTile, set.size() - t * kTile),
            packed.kt + i * head_dim, packed.v + i * padded(head_dim), packed.positions + i);
}

/// The queries of one block of a job: `rows` rows from `first` on, of one head.
MatrixView<const float> queries_of(const CausalRows& job, int first, int rows, int head) {
  const int head_dim = job.keys->layout().head_dim;
  return job.q.rows_at(first, rows).columns_at(head * head_dim, head_dim);
}

/// Writes the results of a block, which are in the state from row `at` on.
void write_block(const SoftmaxState& state, std::int64_t at, const AttentionJob& job, int first,
                 int rows, int head) {
  const int head_dim = job.keys->layout().head_dim;
  write_rows(state, at, job.out.rows_at(first, rows).columns_at(head * head_dim, head_dim),
             job.lse.rows_at(first, rows).columns_at(head, 1));
}

/// The block of rows from `first` on of a dense job, for all heads, over its packed tiles.
void dense_block(const AttentionJob& job, float scale, const PackedSet& packed, int first,
                 float* scratch) {
  const int width = padded(job.keys->layout().head_dim), heads = job.heads();
  const int rows = std::min(kStripRows, job.rows() - first), all = heads * kStripRows;
  BumpAllocator bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  const auto state = SoftmaxState::in(bump.floats(SoftmaxState::floats(all, width)), all, width);
  const auto total = SoftmaxState::in(bump.floats(SoftmaxState::floats(all, width)), all, width);
  total.clear();
  const std::int32_t lowest = job.positions[first], highest = job.positions[first + rows - 1];
  const int tiles = tiles_of(job.keys->size());
  const auto visible = [](std::int32_t, std::int32_t) { return true; };
  for (int begin = 0; begin < tiles; begin += kSegmentTiles) {
    if (packed.positions[begin * kTile] > highest) break;
    state.clear();
    for (int t = begin; t < std::min(begin + kSegmentTiles, tiles); ++t) {
      const Tile tile = shared_tile(*job.keys, packed, t);
      if (tile.positions[0] > highest) break;
      if (job.sliding_window > 0 && tile.positions[tile.count - 1] <= lowest - job.sliding_window) {
        continue;
      }
      for (int h = 0; h < heads; ++h) {
        const Strip strip{queries_of(job, first, rows, h), job.positions + first};
        attend_tile(strip, tile, scale, job.sliding_window, false, visible, s, state,
                    h * kStripRows);
      }
    }
    merge_state(total, state);
  }
  for (int h = 0; h < heads; ++h) write_block(total, h * kStripRows, job, first, rows, h);
}

/// One row block of one head under its pattern.  Packed tiles that it reads entirely are used
/// directly; other keys are gathered into separate tiles.
void pattern_block(const AttentionJob& job, float scale, const PackedSet& packed, int head,
                   int block, float* scratch) {
  const KvHeadCache& keys = *job.keys;
  const int head_dim = keys.layout().head_dim, first = block * kStripRows;
  const int rows = std::min(kStripRows, job.rows() - first), width = padded(head_dim);
  const HeadPattern& pattern = job.patterns[head];
  std::vector<std::int32_t> slots;
  std::optional<PatternMask> mask;
  if (pattern_keys(pattern, job.pass, block, slots)) mask.emplace(pattern, job.pass, block);
  if (!keys.is_contiguous()) {  // positions -> slots, where they are still cached
    std::size_t kept = 0;
    for (std::int32_t position : slots) {
      const int slot = keys.lower_bound(position);
      if (slot < keys.size() && keys.position(slot) == position) slots[kept++] = slot;
    }
    slots.resize(kept);
  }
  std::vector<int> whole;
  std::size_t loose = 0;  // slots[0, loose) are outside of whole tiles
  for (std::size_t i = 0, next = 0; i < slots.size(); i = next) {
    const int t = slots[i] / kTile, count = std::min(kTile, keys.size() - t * kTile);
    while (next < slots.size() && slots[next] / kTile == t) ++next;
    if (next - i == static_cast<std::size_t>(count)) {
      whole.push_back(t);
    } else {
      std::copy(slots.begin() + static_cast<std::ptrdiff_t>(i),
                slots.begin() + static_cast<std::ptrdiff_t>(next),
                slots.begin() + static_cast<std::ptrdiff_t>(loose));
      loose += next - i;
    }
  }
  BumpAllocator bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  const auto state =
      SoftmaxState::in(bump.floats(SoftmaxState::floats(kStripRows, width)), kStripRows, width);
  const auto total =
      SoftmaxState::in(bump.floats(SoftmaxState::floats(kStripRows, width)), kStripRows, width);
  float* kt = bump.floats(kTile * head_dim);
  float* v = bump.floats(kTile * width);
  std::int32_t* positions = bump.ints(kTile);
  const Strip strip{queries_of(job, first, rows, head), job.positions + first};
  const auto visible = [&](std::int32_t row, std::int32_t key) { return mask->contains(row, key); };
  total.clear();
  const int from_set = static_cast<int>(whole.size()), gathered = static_cast<int>(loose);
  const int tiles = from_set + tiles_of(gathered);
  for (int begin = 0; begin < tiles; begin += kSegmentTiles) {
    const SoftmaxState& part = begin == 0 ? total : state;  // the first segment needs no merging
    if (begin > 0) state.clear();
    for (int t = begin; t < std::min(begin + kSegmentTiles, tiles); ++t) {
      const int at = (t - from_set) * kTile;
      const Tile tile = t < from_set ? shared_tile(keys, packed, whole[t])
                                     : pack_tile(keys, slots.data() + at, 0,
                                                 std::min(kTile, gathered - at), kt, v, positions);
      const std::int32_t lowest = tile.positions[0], highest = tile.positions[tile.count - 1];
      if (job.sliding_window > 0 && highest <= strip.positions[0] - job.sliding_window) continue;
      const bool ask = mask && !mask->contains_all(lowest, highest);
      attend_tile(strip, tile, scale, job.sliding_window, ask, visible, s, part, 0);
    }
    if (begin > 0) merge_state(total, state);
  }
  write_block(total, 0, job, first, rows, head);
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(pack_shared);
HWY_EXPORT(dense_block);
HWY_EXPORT(pattern_block);

namespace {

struct Task {
  std::size_t job;
  int head, block;
};

/// Jobs with several rows: every row block processes the packed keys, with all heads together if
/// attention is dense.
void attend_rows(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
                 std::span<const std::size_t> chosen, AttentionWorkspace& workspace) {
  std::vector<const KvHeadCache*> sets;
  for (std::size_t job : chosen) sets.push_back(jobs[job].keys);
  for_each_packed_wave(
      pool, sets, workspace, [&](std::size_t begin, std::span<const PackedSet> packed) {
        std::int64_t scratch = 0;
        std::vector<Task> blocks;
        for (std::size_t i = 0; i < packed.size(); ++i) {
          const AttentionJob& job = jobs[chosen[begin + i]];
          const bool dense = job.patterns == nullptr;
          const int parts = dense ? 1 : job.heads(), heads = dense ? job.heads() : 1;
          scratch = std::max(scratch, task_floats(job.keys->layout().head_dim, heads * kStripRows));
          // Later blocks read more keys: the largest tasks first.
          for (int b = (job.rows() - 1) / kStripRows; b >= 0; --b) {
            for (int h = 0; h < parts; ++h) blocks.push_back({i, h, b});
          }
        }
        pool.parallel_for(blocks.size(), [&](std::size_t task, int worker) {
          const Task& t = blocks[task];
          const AttentionJob& job = jobs[chosen[begin + t.job]];
          float* memory = workspace.worker[worker].get(scratch);
          if (job.patterns == nullptr) {
            HWY_DYNAMIC_DISPATCH(dense_block)
            (job, scale, packed[t.job], t.block * kStripRows, memory);
          } else {
            HWY_DYNAMIC_DISPATCH(pattern_block)
            (job, scale, packed[t.job], t.head, t.block, memory);
          }
        });
      });
}

}  // namespace

std::size_t AttentionWorkspace::bytes() const {
  std::size_t most = 0;
  for (const Scratch& s : worker) most = std::max(most, s.bytes());
  return packed.bytes() + partial.bytes() + worker.size() * most;
}

std::size_t attention_scratch_bytes(const ModelConfig& c, const PassSize& pass, int threads) {
  const auto packed = [&](std::int64_t tokens,
                          std::int64_t sets) {  // each ends in a part of a tile
    return (tokens / kTile + sets) * tile_floats(c.head_dim);
  };
  const std::int64_t shared =
      std::max(packed(pass.longest_context, 1),
               std::min(kPackedFloats, packed(pass.total_context, pass.sequences) * c.kv_heads));
  const std::int64_t of_worker = task_floats(c.head_dim, c.group() * kStripRows);
  return (shared + threads * of_worker) * sizeof(float);
}

void for_each_packed_wave(
    ThreadPool& pool, std::span<const KvHeadCache* const> sets, AttentionWorkspace& workspace,
    const std::function<void(std::size_t begin, std::span<const PackedSet>)>& body) {
  for (std::size_t begin = 0, end = 0; begin < sets.size(); begin = end) {
    std::vector<std::int64_t> at;
    std::vector<std::pair<std::size_t, int>> tiles;  // set of the wave, tile
    std::int64_t floats = 0;
    for (; end < sets.size(); ++end) {
      const std::int64_t need = PackedSet::floats(*sets[end]);
      if (end > begin && floats + need > kPackedFloats) break;
      for (int t = 0; t < tiles_of(sets[end]->size()); ++t) tiles.emplace_back(end - begin, t);
      at.push_back(floats);
      floats += need;
    }
    float* memory = workspace.packed.get(floats);
    std::vector<PackedSet> packed;
    for (std::size_t i = 0; i < at.size(); ++i)
      packed.push_back(PackedSet::in(memory + at[i], *sets[begin + i]));
    pool.parallel_for(tiles.size(), [&](std::size_t i, int) {
      const auto [set, tile] = tiles[i];
      HWY_DYNAMIC_DISPATCH(pack_shared)(*sets[begin + set], packed[set], tile);
    });
    body(begin, packed);
  }
}

void attend(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
            AttentionWorkspace& workspace) {
  std::vector<std::size_t> blocks, single;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    assert(jobs[i].keys->size() > 0 && (jobs[i].slots == nullptr || jobs[i].rows() == 1));
    if (jobs[i].rows() == 0) continue;
    (jobs[i].rows() == 1 && jobs[i].patterns == nullptr ? single : blocks).push_back(i);
  }
  attend_rows(pool, scale, jobs, blocks, workspace);
  if (!single.empty()) attend_single_rows(pool, scale, jobs, single, workspace);
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
