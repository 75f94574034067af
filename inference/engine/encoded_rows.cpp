#include "inference/engine/encoded_rows.h"

#include <algorithm>
#include <cstddef>

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

}  // namespace

void encode_row(const CacheCodec& codec, KvHeadCache& set, KvRow kind, int slot, const float* row) {
  const PageLayout& layout = set.layout();
  codec.encode(kind, {row, static_cast<std::size_t>(layout.head_dim)},
               {set.row_to_write(kind, slot), layout.row_bytes()});
}

void decode_row(const CacheCodec& codec, const KvHeadCache& set, KvRow kind, int slot, float* row) {
  const PageLayout& layout = set.layout();
  codec.decode(kind, {set.row(kind, slot), layout.row_bytes()},
               {row, static_cast<std::size_t>(layout.head_dim)});
}

void append_rows(Backend& backend, std::span<const AppendJob> jobs, const CacheCodec* codec) {
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

std::vector<KvHeadCache> encoded_sets(const CacheCodec& codec, Backend& backend,
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

std::span<const KvHeadCache> decoded_sets(Stage& stage, Sequence& sequence, int layer,
                                          std::span<const KvHeadCache> sets,
                                          std::vector<KvHeadCache>& out) {
  if (!sequence.policies.codec) return sets;
  const CacheCodec& codec = *sequence.policies.codec;
  LayerKv& kv = sequence.at(layer).kv;
  kv.settle();
  kv.settle_pinned();
  out = same_slots(sets, stage.decoded_pool(sets.front().layout()));
  for_each_run(
      stage.backend, sets.size(), [](std::size_t) { return 0; },
      [&](std::size_t s) { return sets[s].size(); },
      [&](const SlotRun& run) {
        const KvHeadCache& from = sets[run.set];
        const auto head_dim = static_cast<std::size_t>(from.layout().head_dim);
        const bool raw = from.layout().pre_rope_keys;
        std::vector<float> rows(3 * head_dim);
        float *key = rows.data(), *value = key + head_dim, *pre_rope_key = value + head_dim;
        for (int slot = run.first; slot < run.first + run.count; ++slot) {
          decode_row(codec, from, KvRow::kKey, slot, key);
          decode_row(codec, from, KvRow::kValue, slot, value);
          if (raw) decode_row(codec, from, KvRow::kPreRopeKey, slot, pre_rope_key);
          out[run.set].write(slot, key, value, raw ? pre_rope_key : nullptr);
        }
      });
  return out;
}

}  // namespace turnbench
