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

/// How attention computes its products: the form of query rows and tiles.
struct F32Format {
  static constexpr Factors kFactors = Factors::kF32;
  static constexpr auto* shared_tile = &HWY_NAMESPACE::shared_tile;
  static constexpr auto* pack_tile = &HWY_NAMESPACE::pack_tile;

  static Strip strip(MatrixView<const float> q, const std::int32_t* positions, BumpAllocator&) {
    return {q, positions};
  }
};

struct Bf16Format {
  static constexpr Factors kFactors = Factors::kBF16;
  static constexpr auto* shared_tile = &shared_bf16_tile;
  static constexpr auto* pack_tile = &pack_bf16_tile;

  static Bf16Strip strip(MatrixView<const float> q, const std::int32_t* positions,
                         BumpAllocator& bump) {
    return bf16_strip(q, positions, bump);
  }
};

/// Packs tile `t` of a set into its place in the shared buffer.
void pack_shared(const KvHeadCache& set, const PackedSet& packed, int t, Factors factors) {
  const int head_dim = set.layout().head_dim;
  const auto pack = [&](const auto& pack_tile) {
    pack_tile(set, nullptr, t * kTile, std::min(kTile, set.size() - t * kTile),
              packed.keys + t * tile_key_floats(head_dim, factors),
              packed.values + t * tile_value_floats(head_dim, factors),
              packed.positions + std::int64_t{t} * kTile);
  };
  factors == Factors::kF32 ? pack(F32Format::pack_tile) : pack(Bf16Format::pack_tile);
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
template <typename Format>
void dense_block(const AttentionJob& job, float scale, const PackedSet& packed, int first,
                 float* scratch) {
  const int width = padded(job.keys->layout().head_dim), heads = job.heads();
  const int rows = std::min(kStripRows, job.rows() - first), all = heads * kStripRows;
  BumpAllocator bump(scratch);
  float* s = bump.floats(kStripRows * kTile);
  const auto state = SoftmaxState::in(bump.floats(SoftmaxState::floats(all, width)), all, width);
  const auto total = SoftmaxState::in(bump.floats(SoftmaxState::floats(all, width)), all, width);
  total.clear();
  std::vector<decltype(Format::strip({}, nullptr, bump))> strips;
  for (int h = 0; h < heads; ++h)
    strips.push_back(Format::strip(queries_of(job, first, rows, h), job.positions + first, bump));
  const std::int32_t lowest = job.positions[first], highest = job.positions[first + rows - 1];
  const int tiles = tiles_of(job.keys->size());
  const auto visible = [](std::int32_t, std::int32_t) { return true; };
  for (int begin = 0; begin < tiles; begin += kSegmentTiles) {
    if (packed.positions[begin * kTile] > highest) break;
    state.clear();
    for (int t = begin; t < std::min(begin + kSegmentTiles, tiles); ++t) {
      const auto tile = Format::shared_tile(*job.keys, packed, t);
      if (tile.positions[0] > highest) break;
      if (job.sliding_window > 0 && tile.positions[tile.count - 1] <= lowest - job.sliding_window) {
        continue;
      }
      for (int h = 0; h < heads; ++h) {
        attend_tile(strips[h], tile, scale, job.sliding_window, false, visible, s, state,
                    h * kStripRows);
      }
    }
    merge_state(total, state);
  }
  for (int h = 0; h < heads; ++h) write_block(total, h * kStripRows, job, first, rows, h);
}

/// One row block of one head under its pattern.  Packed tiles that it reads entirely are used
/// directly; other keys are gathered into separate tiles.
template <typename Format>
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
  float* gathered_keys = bump.floats(tile_key_floats(head_dim, Format::kFactors));
  float* gathered_values = bump.floats(tile_value_floats(head_dim, Format::kFactors));
  std::int32_t* positions = bump.ints(kTile);
  const auto strip = Format::strip(queries_of(job, first, rows, head), job.positions + first, bump);
  const auto visible = [&](std::int32_t row, std::int32_t key) { return mask->contains(row, key); };
  total.clear();
  const int from_set = static_cast<int>(whole.size()), gathered = static_cast<int>(loose);
  const int tiles = from_set + tiles_of(gathered);
  for (int begin = 0; begin < tiles; begin += kSegmentTiles) {
    const SoftmaxState& part = begin == 0 ? total : state;  // the first segment needs no merging
    if (begin > 0) state.clear();
    for (int t = begin; t < std::min(begin + kSegmentTiles, tiles); ++t) {
      const int at = (t - from_set) * kTile;
      const auto tile = t < from_set ? Format::shared_tile(keys, packed, whole[t])
                                     : Format::pack_tile(keys, slots.data() + at, 0,
                                                         std::min(kTile, gathered - at),
                                                         gathered_keys, gathered_values, positions);
      const std::int32_t lowest = tile.positions[0], highest = tile.positions[tile.count - 1];
      if (job.sliding_window > 0 && highest <= strip.positions[0] - job.sliding_window) continue;
      const bool ask = mask && !mask->contains_all(lowest, highest);
      attend_tile(strip, tile, scale, job.sliding_window, ask, visible, s, part, 0);
    }
    if (begin > 0) merge_state(total, state);
  }
  write_block(total, 0, job, first, rows, head);
}

/// One task of a job: all heads of a block of rows, or with patterns one head.
void row_block(const AttentionJob& job, float scale, const PackedSet& packed, int head, int block,
               float* scratch) {
  const auto run = [&](auto format) {
    using Format = decltype(format);
    if (job.patterns == nullptr) {
      dense_block<Format>(job, scale, packed, block * kStripRows, scratch);
    } else {
      pattern_block<Format>(job, scale, packed, head, block, scratch);
    }
  };
  factors_of(job) == Factors::kF32 ? run(F32Format()) : run(Bf16Format());
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(pack_shared);
HWY_EXPORT(row_block);

namespace {

struct Task {
  std::size_t job;
  int head, block;
};

/// Jobs with several rows: every row block processes the packed keys, with all heads together if
/// attention is dense.
void attend_rows(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
                 std::span<const std::size_t> chosen, AttentionWorkspace& workspace) {
  std::vector<SetToPack> sets;
  for (std::size_t job : chosen) sets.push_back({jobs[job].keys, factors_of(jobs[job])});
  for_each_packed_wave(
      pool, sets, workspace, [&](std::size_t begin, std::span<const PackedSet> packed) {
        std::int64_t scratch = 0;
        std::vector<Task> blocks;
        for (std::size_t i = 0; i < packed.size(); ++i) {
          const AttentionJob& job = jobs[chosen[begin + i]];
          const bool dense = job.patterns == nullptr;
          const int parts = dense ? 1 : job.heads(), heads = dense ? job.heads() : 1;
          scratch = std::max(scratch, task_floats(job.keys->layout().head_dim, heads * kStripRows,
                                                  factors_of(job)));
          // Later blocks read more keys: the largest tasks first.
          for (int b = (job.rows() - 1) / kStripRows; b >= job.unread_rows / kStripRows; --b) {
            for (int h = 0; h < parts; ++h) blocks.push_back({i, h, b});
          }
        }
        pool.parallel_for(blocks.size(), [&](std::size_t task, int worker) {
          const Task& t = blocks[task];
          const AttentionJob& job = jobs[chosen[begin + t.job]];
          HWY_DYNAMIC_DISPATCH(row_block)
          (job, scale, packed[t.job], t.head, t.block, workspace.worker[worker].get(scratch));
        });
      });
}

}  // namespace

Factors factors_of(const AttentionJob& job) {
  assert(job.math != Math::kBF16 || job.keys->layout().dtype == DType::kBF16);
  return job.math == Math::kBF16 ? Factors::kBF16 : Factors::kF32;
}

std::size_t AttentionWorkspace::bytes() const {
  std::size_t most = 0;
  for (const Scratch& s : worker) most = std::max(most, s.bytes());
  return packed.bytes() + partial.bytes() + worker.size() * most;
}

std::size_t attention_scratch_bytes(const ModelConfig& c, const PassSize& pass, int threads) {
  const auto most = [&](const auto& floats_of) {
    const std::int64_t f32 = floats_of(Factors::kF32);
    return pass.math == Math::kBF16 ? std::max(f32, floats_of(Factors::kBF16)) : f32;
  };
  const std::int64_t of_tile =
      most([&](Factors factors) { return tile_floats(c.head_dim, factors); });
  const auto packed = [&](std::int64_t tokens,
                          std::int64_t sets) {  // each ends in a part of a tile
    return (tokens / kTile + sets) * of_tile;
  };
  const std::int64_t shared =
      std::max(packed(pass.longest_context, 1),
               std::min(kPackedFloats, packed(pass.total_context, pass.sequences) * c.kv_heads));
  const std::int64_t of_worker = most(
      [&](Factors factors) { return task_floats(c.head_dim, c.group() * kStripRows, factors); });
  return (shared + threads * of_worker) * sizeof(float);
}

void for_each_packed_wave(
    ThreadPool& pool, std::span<const SetToPack> sets, AttentionWorkspace& workspace,
    const std::function<void(std::size_t begin, std::span<const PackedSet>)>& body) {
  for (std::size_t begin = 0, end = 0; begin < sets.size(); begin = end) {
    std::vector<std::int64_t> at;
    std::vector<std::pair<std::size_t, int>> tiles;  // set of the wave, tile
    std::int64_t floats = 0;
    for (; end < sets.size(); ++end) {
      const std::int64_t need = PackedSet::floats(*sets[end].set, sets[end].factors);
      if (end > begin && floats + need > kPackedFloats) break;
      for (int t = 0; t < tiles_of(sets[end].set->size()); ++t) tiles.emplace_back(end - begin, t);
      at.push_back(floats);
      floats += need;
    }
    float* memory = workspace.packed.get(floats);
    std::vector<PackedSet> packed;
    for (std::size_t i = 0; i < at.size(); ++i)
      packed.push_back(
          PackedSet::in(memory + at[i], *sets[begin + i].set, sets[begin + i].factors));
    pool.parallel_for(tiles.size(), [&](std::size_t i, int) {
      const auto [set, tile] = tiles[i];
      HWY_DYNAMIC_DISPATCH(pack_shared)
      (*sets[begin + set].set, packed[set], tile, sets[begin + set].factors);
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
