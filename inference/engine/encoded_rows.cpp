#include "inference/engine/encoded_rows.h"

#include <algorithm>
#include <cstddef>

#include "common/error.h"
#include "inference/model/elements.h"

namespace turnbench {
namespace {

/// Consecutive slots of one set, within a page.
struct SlotRun {
  std::size_t set;
  int first, count;
};

/// Calls task(run) for the slots [first_of(set), end_of(set)) of `count` sets, on the backend's
/// threads.
template <typename First, typename End, typename Task>
void for_each_run(Backend& backend, std::size_t count, const First& first_of, const End& end_of,
                  const Task& task) {
  std::vector<SlotRun> runs;
  for (std::size_t s = 0; s < count; ++s) {
    const int end = end_of(s);
    for (int first = first_of(s); first < end;) {
      const int next = std::min(end, (first / kPageTokens + 1) * kPageTokens);
      runs.push_back({s, first, next - first});
      first = next;
    }
  }
  backend.parallel_for(runs.size(), [&](std::size_t i) { task(runs[i]); });
}

std::vector<KvHeadCache> same_slots(std::span<const KvHeadCache> sets,
                                    const std::shared_ptr<KvPool>& pool) {
  std::vector<KvHeadCache> out;
  for (const KvHeadCache& set : sets) out.push_back(set.same_slots(pool));
  return out;
}

/// The kinds of rows that pages have.
std::vector<KvRow> kinds_of(const ElementLayout& layout) {
  if (layout.pre_rope_keys) return {KvRow::kKey, KvRow::kValue, KvRow::kPreRopeKey};
  return {KvRow::kKey, KvRow::kValue};
}

std::span<std::byte> group_bytes(KvHeadCache& set, KvRow kind, int slot, int group) {
  return {set.row_to_write(kind, slot),
          static_cast<std::size_t>(group) * set.layout().row_bytes(kind)};
}

/// Decodes consecutive rows of a set within a page.  newest: of its layer; out: [count, head_dim].
void read_rows(const Policies& policies, const NewestTokens* newest, const KvHeadCache& set,
               const SlotRun& run, KvRow kind, MatrixView<float> out) {
  if (newest == nullptr) {
    const RowCodec& codec = *policies.row_codec();
    for (int i = 0; i < run.count; ++i) decode_row(codec, set, kind, run.first + i, out.row(i));
    return;
  }
  const GroupCodec& codec = *policies.group_codec();
  const NewestTokens::OfSet& of = newest->of[run.set];
  const int group = codec.group(kind), end = run.first + run.count;
  int slot = run.first;
  for (; slot < std::min(end, of.encoded_rows(kind)); slot += group) {
    codec.decode(
        kind, {set.row(kind, slot), static_cast<std::size_t>(group) * set.layout().row_bytes(kind)},
        out.rows_at(slot - run.first, group));
  }
  for (; slot < end; ++slot)
    newest->elements[run.set].read(kind, slot - of.first, out.row(slot - run.first));
}

/// Copies of encoded sets of a layer as elements in pages of `pool`.
/// @throws Error (runtime) if a key is not finite: attention would not report it.  Only for layers
/// that are not offloaded: others have slots that are written later.
std::vector<KvHeadCache> decoded(Stage& stage, const Sequence& sequence, int layer,
                                 std::span<const KvHeadCache> sets,
                                 const std::shared_ptr<KvPool>& pool) {
  std::vector<KvHeadCache> out = same_slots(sets, pool);
  const bool all_written = !sequence.at(layer).kv.is_offloaded();
  for_each_run(
      stage.backend, sets.size(), [](std::size_t) { return 0; },
      [&](std::size_t s) { return sets[s].size(); },
      [&](const SlotRun& run) {
        const PageLayout& layout = sets[run.set].layout();
        const std::int64_t head_dim = layout.head_dim;
        const auto memory = std::make_unique_for_overwrite<float[]>(
            static_cast<std::size_t>(3 * run.count * head_dim));
        const auto rows = [&](int kind) {
          return MatrixView<float>(memory.get() + kind * run.count * head_dim, run.count, head_dim);
        };
        const MatrixView keys = rows(0), values = rows(1), pre_rope_keys = rows(2);
        const auto read = [&](KvRow kind, const MatrixView<float>& to) {
          read_rows(sequence.policies, sequence.at(layer).kv.newest(), sets[run.set], run, kind,
                    to);
        };
        read(KvRow::kKey, keys);
        const auto elements = static_cast<std::size_t>(run.count * head_dim);
        if (all_written &&
            !all_finite(reinterpret_cast<const std::byte*>(keys.data), DType::kF32, elements)) {
          throw runtime_error(
              "{}: layer {}, set {}: found a key that is not finite after it was encoded, expected "
              "keys in the range of the codec",
              sequence.policies.method, layer, run.set);
        }
        read(KvRow::kValue, values);
        if (layout.pre_rope_keys) read(KvRow::kPreRopeKey, pre_rope_keys);
        out[run.set].write(run.first, keys, values, pre_rope_keys);
      });
  return out;
}

}  // namespace

void encode_row(const RowCodec& codec, KvHeadCache& set, KvRow kind, int slot, const float* row) {
  const PageLayout& layout = set.layout();
  codec.encode(kind, {row, static_cast<std::size_t>(layout.head_dim)},
               {set.row_to_write(kind, slot), layout.row_bytes(kind)});
}

void decode_row(const RowCodec& codec, const KvHeadCache& set, KvRow kind, int slot, float* row) {
  const PageLayout& layout = set.layout();
  codec.decode(kind, {set.row(kind, slot), layout.row_bytes(kind)},
               {row, static_cast<std::size_t>(layout.head_dim)});
}

void append_rows(Backend& backend, std::span<const AppendJob> jobs, const RowCodec* codec) {
  if (codec == nullptr) {
    if (!jobs.empty()) backend.append(jobs);
    return;
  }
  backend.memory()->synchronize();  // the host reads the rows
  for_each_run(
      backend, jobs.size(), [&](std::size_t j) { return jobs[j].first; },
      [&](std::size_t j) { return jobs[j].first + jobs[j].rows(); },
      [&](const SlotRun& run) {
        const AppendJob& job = jobs[run.set];
        for (int slot = run.first; slot < run.first + run.count; ++slot) {
          const int row = slot - job.first;
          encode_row(*codec, *job.set, KvRow::kKey, slot, job.k.row(row));
          if (job.v.data != nullptr)
            encode_row(*codec, *job.set, KvRow::kValue, slot, job.v.row(row));
          if (job.pre_rope_k.data != nullptr)
            encode_row(*codec, *job.set, KvRow::kPreRopeKey, slot, job.pre_rope_k.row(row));
        }
      });
}

std::vector<KvHeadCache> encoded_sets(const RowCodec& codec, Backend& backend,
                                      std::span<const KvHeadCache> sets,
                                      const std::shared_ptr<KvPool>& pool) {
  std::vector<KvHeadCache> out = same_slots(sets, pool);
  backend.memory()->synchronize();
  for_each_run(
      backend, sets.size(), [](std::size_t) { return 0; },
      [&](std::size_t s) { return sets[s].size(); },
      [&](const SlotRun& run) {
        std::vector<float> row(static_cast<std::size_t>(pool->layout().head_dim));
        for (int slot = run.first; slot < run.first + run.count; ++slot) {
          for (const KvRow kind : {KvRow::kKey, KvRow::kValue, KvRow::kPreRopeKey}) {
            if (kind == KvRow::kPreRopeKey && !pool->layout().pre_rope_keys) continue;
            sets[run.set].read(kind, slot, row.data());
            encode_row(codec, out[run.set], kind, slot, row.data());
          }
        }
      });
  return out;
}

std::span<const KvHeadCache> decoded_sets(EngineCore& core, Sequence& sequence, int layer,
                                          std::span<const KvHeadCache> sets,
                                          std::vector<KvHeadCache>& out) {
  if (!sets.front().layout().is_encoded()) return sets;
  const auto zone = core.zone(Phase::kCodec, layer);
  Stage& stage = core.stage_of(layer);
  LayerKv& kv = sequence.at(layer).kv;
  kv.settle();
  kv.settle_pinned();
  out = decoded(stage, sequence, layer, sets, stage.decoded_pool(sets.front().layout()));
  return out;
}

void encode_groups(EngineCore& core, Sequence& sequence, int layer) {
  const GroupCodec* codec = sequence.policies.group_codec();
  if (codec == nullptr) return;
  const auto zone = core.zone(Phase::kCodec, layer);
  Stage& stage = core.stage_of(layer);
  LayerKv& kv = sequence.at(layer).kv;
  const ElementLayout layout = kv.pool()->layout();
  const std::shared_ptr<KvPool>& elements = stage.storage_of(layout.pre_rope_keys, {})->device;
  if (kv.newest() == nullptr) {
    const auto& storage =
        stage.storage_of(layout.pre_rope_keys, sequence.policies.encoded_bytes(layout.head_dim));
    kv.begin_groups(storage, same_slots(kv.sets(), storage->device));
  }
  const std::vector<KvRow> kinds = kinds_of(layout);
  std::vector<KvHeadCache>& sets = kv.sets();
  NewestTokens& newest = *kv.newest();
  const auto target = [&](std::size_t s, KvRow kind) {
    return std::max(newest.of[s].encoded_rows(kind), codec->encoded_rows(kind, sets[s].size()));
  };
  const auto least_encoded = [&](std::size_t s) {
    int out = sets[s].size();
    for (const KvRow kind : kinds) out = std::min(out, newest.of[s].encoded_rows(kind));
    return out;
  };
  for_each_run(
      stage.backend, sets.size(), least_encoded,
      [&](std::size_t s) {
        int out = 0;
        for (const KvRow kind : kinds) out = std::max(out, target(s, kind));
        return out;
      },
      [&](const SlotRun& run) {
        const NewestTokens::OfSet& of = newest.of[run.set];
        std::vector<float> memory(static_cast<std::size_t>(kPageTokens * layout.head_dim));
        for (const KvRow kind : kinds) {
          const int group = codec->group(kind),
                    end = std::min(target(run.set, kind), run.first + run.count);
          const MatrixView rows(memory.data(), group, layout.head_dim);
          for (int slot = std::max(of.encoded_rows(kind), run.first); slot < end; slot += group) {
            for (int i = 0; i < group; ++i)
              newest.elements[run.set].read(kind, slot + i - of.first, rows.row(i));
            codec->encode(kind, rows, group_bytes(sets[run.set], kind, slot, group));
          }
        }
      });
  for (std::size_t s = 0; s < sets.size(); ++s) {
    NewestTokens::OfSet& of = newest.of[s];
    for (const KvRow kind : kinds) of.encoded[static_cast<std::size_t>(kind)] = target(s, kind);
    KvHeadCache& set = newest.elements[s];
    const int first = least_encoded(s) / kPageTokens * kPageTokens;  // whole pages are released
    if (first == of.first && set.pool() == elements) continue;
    set = set.gathered(slots_between(first - of.first, set.size()), elements);
    of.first = first;
  }
}

void decode_groups(EngineCore& core, Sequence& sequence, int layer) {
  LayerKv& kv = sequence.at(layer).kv;
  if (kv.newest() == nullptr) return;
  const auto zone = core.zone(Phase::kCodec, layer);
  Stage& stage = core.stage_of(layer);
  const auto& storage = stage.storage_of(kv.pool()->layout().pre_rope_keys, {});
  kv.convert(storage, decoded(stage, sequence, layer, kv.sets(), storage->device));
}

}  // namespace turnbench
