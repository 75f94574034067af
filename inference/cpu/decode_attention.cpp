// Attention of single rows, as in decode steps: each key and value is read once from its page for
// all query heads of its group.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/decode_attention.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention.h"
#include "inference/cpu/row_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr int kSegmentSlots = kSegmentTiles * kTile;

inline int slots_of(const AttentionJob& job) {
  return job.slots == nullptr ? job.keys->size() : static_cast<int>(job.slots->size());
}

/// True if causality and the window hide none of a job's slots.  Checks only the ends, because
/// positions ascend.
inline bool sees_all(const AttentionJob& job) {
  const int count = slots_of(job);
  if (count == 0) return true;
  const auto position = [&](int i) {
    return job.keys->position(job.slots == nullptr ? i : (*job.slots)[i]);
  };
  return position(count - 1) <= job.positions[0] &&
         (job.sliding_window == 0 || position(0) > job.positions[0] - job.sliding_window);
}

/// The addresses of a tile's rows.  Rows beyond `count` repeat the last one.
template <typename T>
struct TileRows {
  const T *keys[kTile], *values[kTile];
  const std::int32_t* positions;  ///< null: all are seen
  std::int32_t gathered[kTile];
  std::uint32_t heads[kTile];  ///< heads that attend to a row, if the job has slot_heads
  int count = 0;

  /// Finds the tile that begins with slot `first`, a multiple of 64, or with the `first`-th listed
  /// slot if the job lists slots.  The tile is empty if there is no such slot.  all_seen: result of
  /// `sees_all`.
  void find(const AttentionJob& job, int first, bool all_seen) {
    const PageLayout& layout = job.keys->layout();
    const auto pages = job.keys->page_data();
    const int width = layout.head_dim;
    count = std::clamp(slots_of(job) - first, 0, kTile);
    if (count == 0) return;
    if (job.slots == nullptr) {
      const std::byte* page = pages[first / kTile];
      const T* key = reinterpret_cast<const T*>(page);
      const T* value = reinterpret_cast<const T*>(page + layout.value_offset());
      for (int j = 0; j < count; ++j) {
        keys[j] = key + j * width;
        values[j] = value + j * width;
      }
      positions = reinterpret_cast<const std::int32_t*>(page + layout.position_offset());
    } else {
      const std::int32_t* slots = job.slots->data() + first;
      const std::size_t key_offset = job.pre_rope ? layout.pre_rope_key_offset() : 0;
      for (int j = 0; j < count; ++j) {
        const std::byte* page = pages[slots[j] / kTile];
        const int row = slots[j] % kTile;
        keys[j] = reinterpret_cast<const T*>(page + key_offset) + row * width;
        values[j] = reinterpret_cast<const T*>(page + layout.value_offset()) + row * width;
        if (!all_seen)
          gathered[j] = reinterpret_cast<const std::int32_t*>(page + layout.position_offset())[row];
      }
      positions = gathered;
    }
    if (all_seen) positions = nullptr;
    if (job.slot_heads != nullptr) std::copy_n(job.slot_heads->data() + first, count, heads);
    for (int j = count; j < kTile; ++j) {
      keys[j] = keys[count - 1];
      values[j] = values[count - 1];
    }
  }
};

/// Prefetches the rows of the next tile while the products of the current one are computed.
template <typename T>
class Prefetcher {
 public:
  Prefetcher(const TileRows<T>& rows, int head_dim)
      : rows_(rows), bytes_(static_cast<std::size_t>(head_dim) * sizeof(T)) {}

  /// Must be called head_dim times during the product with keys, and at least as often during that
  /// with values: 2 * 64 rows of head_dim elements then take sizeof(T) lines per call.
  HWY_INLINE void step() {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      if (at_ >= end_) {
        if (next_ == 2 * rows_.count) return;
        at_ = reinterpret_cast<const char*>((next_ & 1) == 0 ? rows_.keys[next_ / 2]
                                                             : rows_.values[next_ / 2]);
        end_ = at_ + bytes_;
        ++next_;
      }
      prefetch_line(at_);
      at_ += kLineBytes;
    }
  }

 private:
  const TileRows<T>& rows_;
  std::size_t bytes_;
  int next_ = 0;  ///< row: keys are even, values odd
  const char *at_ = nullptr, *end_ = nullptr;
};

/// Masks the scores s [64] of head `head` where it does not attend to a row.
HWY_INLINE void mask_head(const std::uint32_t* HWY_RESTRICT heads, std::int64_t head,
                          float* HWY_RESTRICT s) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bit = hn::Set(du, std::uint32_t{1} << head);
  const auto masked = hn::Set(d, kMasked);
  for (std::size_t j = 0; j < kTile; j += hn::Lanes(d)) {
    const auto attends = hn::RebindMask(d, hn::TestBit(hn::LoadU(du, heads + j), bit));
    hn::StoreU(hn::IfThenElse(attends, hn::LoadU(d, s + j), masked), d, s + j);
  }
}

/// Masks a tile's scores s [heads, 64] by causality, window and heads, turns them into softmax
/// weights, and updates the state, which has one row per head.  maximum: scratch [heads].
template <typename T>
HWY_INLINE void tile_weights(const AttentionJob& job, float scale, const TileRows<T>& tile,
                             float* s, float* maximum, const SoftmaxState& out) {
  std::ptrdiff_t from = 0, to = tile.count;  // visible keys
  if (tile.positions != nullptr) {
    const std::int32_t position = job.positions[0];
    const std::int32_t *begin = tile.positions, *end = begin + tile.count;
    if (end[-1] > position) to = std::upper_bound(begin, end, position) - begin;
    if (job.sliding_window > 0 && *begin <= position - job.sliding_window)
      from = std::upper_bound(begin, end, position - job.sliding_window) - begin;
  }
  for (std::int64_t h = 0; h < out.acc.rows; ++h) {  // all maxima first: each is a long chain
    float* row = s + h * kTile;
    if (job.slot_heads != nullptr) mask_head(tile.heads, h, row);
    std::fill(row, row + from, kMasked);
    std::fill(row + to, row + kTile, kMasked);
    maximum[h] = new_maximum(scale, row, out.m[h]);
  }
  for (std::int64_t h = 0; h < out.acc.rows; ++h) {
    softmax_row(scale, maximum[h], s + h * kTile, out.m[h], out.l[h], out.acc.row(h),
                out.acc.columns);
  }
}

/// Computes the products of a tile's rows in float32, for all heads of a set.
template <typename T>
class F32Rows {
 public:
  F32Rows(MatrixView<const float> q, BumpAllocator& bump)
      : q_(q),
        transposed_(bump.floats(kTile * q.columns)),
        widened_(bump.floats(kTile * padded(static_cast<int>(q.columns)))) {}

  /// s = q k^T.  s: [heads, 64].
  void scores(const TileRows<T>& tile, Prefetcher<T>& ahead, float* s) const {
    const auto* kt = transpose_rows(tile.keys, static_cast<std::size_t>(q_.columns), transposed_);
    product(q_, StridedRows<Transposed<T>>{kt, kTile}, {s, q_.rows, padded(tile.count), kTile},
            false, ahead);
  }

  /// acc += weights v.  weights: [heads, 64]; acc: [heads, padded(head_dim)].
  void add_values(const TileRows<T>& tile, Prefetcher<T>& ahead, const float* s,
                  const MatrixView<float>& acc) const {
    const MatrixView<const float> weights(s, q_.rows, tile.count, kTile);
    const bool as_they_are = kWidensInProducts || std::is_same_v<T, float>;
    if (!as_they_are || q_.columns != acc.columns) {
      widen_values(tile.values, tile.count, static_cast<int>(q_.columns), widened_);
      const StridedRows<float> values{widened_, static_cast<std::size_t>(acc.columns)};
      product(weights, values, acc, true, ahead);
    } else {
      product(weights, GatheredRows<T>{tile.values}, acc, true, ahead);
    }
  }

 private:
  template <typename Rows>
  static void product(const MatrixView<const float>& a, Rows rows, const MatrixView<float>& c,
                      bool add, Prefetcher<T>& ahead) {
    group_product(a, PrefetchingRows<Rows, Prefetcher<T>>{rows, &ahead}, c, add);
  }

  MatrixView<const float> q_;
  float *transposed_, *widened_;
};

/// The same by products of bf16.
class Bf16Rows {
 public:
  using T = hwy::bfloat16_t;

  Bf16Rows(MatrixView<const float> q, BumpAllocator& bump)
      : head_dim_(static_cast<int>(q.columns)),
        strip_(bf16_strip(q, nullptr, bump)),
        keys_(bump.floats(tile_key_floats(head_dim_, Factors::kBF16))),
        values_(bump.floats(tile_value_floats(head_dim_, Factors::kBF16))) {}

  void scores(const TileRows<T>& tile, Prefetcher<T>& ahead, float* s) const {
    for (int i = 0; i < head_dim_; ++i) ahead.step();
    const PairedView keys = pair_keys(tile.keys, head_dim_, keys_);
    multiply({strip_.q, keys, 0, keys.panels(), {s, strip_.count, kTile, kTile}});
  }

  void add_values(const TileRows<T>& tile, Prefetcher<T>& ahead, const float* s,
                  const MatrixView<float>& acc) const {
    for (int i = 0; i < head_dim_; ++i) ahead.step();
    const PairedView values = pair_values(tile.values, head_dim_, values_);
    strip_.weights.set({s, strip_.count, kTile});
    multiply({strip_.weights, values, 0, values.panels(), acc, true});
  }

 private:
  int head_dim_;
  Bf16Strip strip_;
  float *keys_, *values_;
};

/// Attention of a single row to one segment, for all heads of the set, into `out`.  `later` and
/// `later_segment`: the likely next work of this thread, to be prefetched; `later` may be null.
/// Products: F32Rows<T> or Bf16Rows.
template <typename T, typename Products>
void segment_typed(const AttentionJob& job, float scale, int segment, const AttentionJob* later,
                   int later_segment, float* scratch, const SoftmaxState& out) {
  const KvHeadCache& keys = *job.keys;
  const int head_dim = keys.layout().head_dim, heads = job.heads();
  const MatrixView<const float> q(job.q.data, heads, head_dim);
  BumpAllocator bump(scratch);
  float* s = bump.floats(heads * kTile);
  float* maximum = bump.floats(heads);
  const Products products(q, bump);
  const int count = slots_of(job), end = std::min((segment + 1) * kSegmentSlots, count);
  int at = segment * kSegmentSlots;
  if (job.sliding_window > 0 && job.slots == nullptr) {  // skip tiles before the window
    const std::int32_t hidden = job.positions[0] - job.sliding_window;
    while (at < end && keys.position(std::min(at + kTile, count) - 1) <= hidden) at += kTile;
  }
  out.clear();
  const bool all_seen = sees_all(job);
  TileRows<T> rows[2];
  if (at < end) rows[0].find(job, at, all_seen);
  for (int i = 0; at < end; at += kTile, i ^= 1) {
    const TileRows<T>& tile = rows[i];
    TileRows<T>& next = rows[i ^ 1];
    next.count = 0;
    if (at + kTile < end) {
      next.find(job, at + kTile, all_seen);
    } else if (later != nullptr && later->keys->layout().dtype == keys.layout().dtype) {
      next.find(*later, later_segment * kSegmentSlots, true);
    }
    Prefetcher<T> prefetcher(next, head_dim);
    products.scores(tile, prefetcher, s);
    tile_weights(job, scale, tile, s, maximum, out);
    products.add_values(tile, prefetcher, s, out.acc);
  }
}

void attend_segment(const AttentionJob& job, float scale, int segment, const AttentionJob* later,
                    int later_segment, float* scratch, const SoftmaxState& out) {
  const auto run = [&](auto element) {
    using T = decltype(element);
    segment_typed<T, F32Rows<T>>(job, scale, segment, later, later_segment, scratch, out);
  };
  if (factors_of(job) == Factors::kBF16) {
    return segment_typed<hwy::bfloat16_t, Bf16Rows>(job, scale, segment, later, later_segment,
                                                    scratch, out);
  }
  switch (job.keys->layout().dtype) {
    case DType::kF32:
      return run(float());
    case DType::kF16:
      return run(hwy::float16_t());
    case DType::kBF16:
      return run(hwy::bfloat16_t());
  }
}

void merge_segments(const AttentionJob& job, const SoftmaxState* parts, int count, float* scratch) {
  const int head_dim = job.keys->layout().head_dim, heads = job.heads();
  SoftmaxState total = parts[0];
  if (count > 1) {
    total = SoftmaxState::in(scratch, heads, padded(head_dim));
    total.clear();
    for (int i = 0; i < count; ++i) merge_state(total, parts[i]);
  }
  write_rows(total, 0, {job.out.data, heads, head_dim}, {job.lse.data, heads, 1});
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(attend_segment);
HWY_EXPORT(merge_segments);

/// Computes segments of the keys in parallel and merges them in order (Dao et al., "Flash-Decoding
/// for long-context inference", 2023).
void attend_single_rows(ThreadPool& pool, float scale, std::span<const AttentionJob> jobs,
                        std::span<const std::size_t> single, AttentionWorkspace& workspace) {
  struct Task {
    std::size_t job;
    int segment;
  };
  std::vector<Task> tasks;
  std::vector<std::size_t> first_task;
  std::vector<std::int64_t> state_at;
  std::int64_t floats = 0, scratch = 0;
  for (std::size_t i : single) {
    const AttentionJob& job = jobs[i];
    const int head_dim = job.keys->layout().head_dim, heads = job.heads();
    const int keys = job.slots == nullptr ? job.keys->size() : static_cast<int>(job.slots->size());
    const int segments = std::max(1, (tiles_of(keys) + kSegmentTiles - 1) / kSegmentTiles);
    first_task.push_back(tasks.size());
    for (int s = 0; s < segments; ++s) {
      tasks.push_back({i, s});
      state_at.push_back(floats);
      floats += SoftmaxState::floats(heads, padded(head_dim));
    }
    scratch = std::max(scratch, task_floats(head_dim, heads, factors_of(job)));
  }
  first_task.push_back(tasks.size());
  float* memory = workspace.partial.get(floats);
  std::vector<SoftmaxState> states;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const AttentionJob& job = jobs[tasks[t].job];
    states.push_back(
        SoftmaxState::in(memory + state_at[t], job.heads(), padded(job.keys->layout().head_dim)));
  }
  const auto scratch_of = [&](int worker) { return workspace.worker[worker].get(scratch); };
  const auto team = static_cast<std::size_t>(pool.size());
  pool.parallel_for(tasks.size(), [&](std::size_t t, int worker) {
    const bool more = t + team < tasks.size();  // this worker's next task if all are equally fast
    HWY_DYNAMIC_DISPATCH(attend_segment)
    (jobs[tasks[t].job], scale, tasks[t].segment, more ? &jobs[tasks[t + team].job] : nullptr,
     more ? tasks[t + team].segment : 0, scratch_of(worker), states[t]);
  });
  for (std::size_t i = 0; i < single.size(); ++i) {
    HWY_DYNAMIC_DISPATCH(merge_segments)
    (jobs[single[i]], states.data() + first_task[i],
     static_cast<int>(first_task[i + 1] - first_task[i]), scratch_of(0));
  }
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
