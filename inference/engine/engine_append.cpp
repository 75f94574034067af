// The part of the engine that appends keys and values to the cache: to a layer's sets or, where
// these are in host memory, to what the device holds of them.

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/engine.h"

namespace turnbench {

void Engine::add_append_jobs(int layer, std::size_t pass, const Layout& layout,
                             std::span<KvHeadCache> sets, std::span<const std::int32_t> first,
                             std::vector<AppendJob>& jobs) {
  Stage& stage = stage_of(layer);
  const auto raw = layout.pre_rope_keys ? stage.pre_rope_k.view : MatrixView<float>();
  const std::int64_t row = layout.first_row[pass], rows = layout.rows_of(pass);
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const std::int64_t kv_head = static_cast<std::int64_t>(s) * shape_.kv_heads / std::ssize(sets);
    const auto own = [&](MatrixView<const float> all) {
      return all.rows_at(row, rows).columns_at(kv_head * shape_.head_dim, shape_.head_dim);
    };
    AppendJob& job = jobs.emplace_back();
    job.set = &sets[s];
    job.first = first[s];
    job.k = own(stage.k.view);
    job.v = own(stage.v.view);
    if (job.set->layout().pre_rope_keys) job.pre_rope_k = own(raw);
  }
}

void Engine::append_keys(int layer, std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stage_of(layer);
  const auto l = static_cast<std::size_t>(layer);
  std::vector<AppendJob> jobs;
  std::vector<std::vector<std::int32_t>> new_slots(passes.size());  // of offloaded layers
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& sequence = *passes[i].sequence;
    const std::int64_t first = layout.first_row[i], rows = std::ssize(passes[i].tokens);
    const bool is_prefill = passes[i].kind == Pass::Kind::kPrefill;
    HeldLayer* held = sequence.held[l].get();
    if (held != nullptr) {
      held->settle();
    } else if (is_prefill) {
      bring_back(sequence, layer);
    }
    auto& sets = sequence.cache.layer(layer);
    const auto positions = std::span(layout.positions).subspan(first, rows);
    const Layout::Ahead* ahead = layout.ahead_of(i, layer);
    if (ahead == nullptr) {
      for (KvHeadCache& set : sets) set.extend(positions);
    }
    OffloadedLayer* offloaded = sequence.offloaded[l].get();
    if (held != nullptr) {
      if (is_prefill) continue;  // appended when the policy knows what the layer holds
      add_append_jobs(layer, i, layout, held->sets(), hold(sequence, layer, positions), jobs);
    } else if (offloaded != nullptr) {
      new_slots[i] = ahead != nullptr ? ahead->new_slots : begin_offloaded_step(sequence, layer);
      add_append_jobs(layer, i, layout, offloaded->sets(), new_slots[i], jobs);
    } else {
      std::vector<std::int32_t> own;
      for (const KvHeadCache& set : sets) own.push_back(set.size() - static_cast<int>(rows));
      add_append_jobs(layer, i, layout, sets, own, jobs);
    }
  }
  stage.backend.append(jobs);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    if (!new_slots[i].empty())
      s.offloaded[l]->write_back(s.cache.layer(layer), new_slots[i], ledger_of(s, layer));
    if (s.held[l] != nullptr && passes[i].kind == Pass::Kind::kDecode)
      s.held[l]->write_back(s.cache.layer(layer), 1, ledger_of(s, layer));
  }
}

}  // namespace turnbench
