// The part of the engine that moves keys and values between host and device memory.

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "inference/engine/engine.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {
namespace {

OffloadedLayer::Pinned pinned_of(const SelectionPolicy* selection, int layer) {
  return [selection, layer](int set, int tokens) -> std::vector<SlotRange> {
    if (selection == nullptr) return {{tokens - 1, tokens}};
    return selection->pinned_of_set(layer, set, tokens);
  };
}

/// Where a sequence's selection policy breaks a promise, for messages.
std::string selection_at(const Sequence& s, int layer) {
  return PolicyCheck{s.policies.method, layer, s.shape().heads}.where("selection");
}

/// A layer's sets in host memory, and the bytes that went there.
struct HostCopy {
  std::vector<KvHeadCache> sets;
  std::int64_t bytes = 0;
};

}  // namespace

LinkTraffic Engine::link_traffic() const {
  LinkTraffic out;
  for (const Stage& s : stages_) out += s.link->traffic();
  return out;
}

/// A step of the ledgers of what is offloaded: each decode step is one, and all of a turn's
/// prefill.
void Engine::begin_ledgers(const Pass& pass) {
  const auto begin = [](Sequence& s) {
    if (s.policies.placement.host) s.counters.ledger.begin_step(s.shape().layers);
  };
  if (pass.kind == Pass::Kind::kDecode || pass.sequence->counters.ledger.steps() == 0)
    begin(*pass.sequence);
  if (!pass.prompt_end) return;
  for (Sequence* fork : pass.forks) {
    fork->counters.ledger.clear();
    begin(*fork);
  }
}

void Engine::bring_back(Sequence& s, int layer) {
  Stage& stage = stage_of(layer);
  auto& sets = s.cache.layer(layer);
  s.offloaded[static_cast<std::size_t>(layer)].reset();
  if (!stage.is_on_host(sets.front())) return;
  std::vector<KvHeadCache>& host = s.host_copies[static_cast<std::size_t>(layer)];
  host = std::move(sets);
  sets.assign(host.size(), KvHeadCache(s.cache.pool(layer)));
  append_over(*stage.link, LinkDirection::kToDevice, LinkUse::kPrefill, host, sets,
              s.counters.ledger.now(layer).prefill_bytes);
}

IndexPath Engine::index_path(Sequence& s, int layer) {
  const Stage& stage = stage_of(layer);
  return {stage.link, stage.memory, &s.counters.ledger.now(layer)};
}

std::vector<std::int32_t> Engine::begin_offloaded_step(Sequence& s, int layer) {
  OffloadedLayer& offloaded = *s.offloaded[static_cast<std::size_t>(layer)];
  const auto prefetch = [&](int l) {
    if (s.policies.selection && s.offloaded[static_cast<std::size_t>(l)])
      s.policies.selection->prefetch(l, index_path(s, l));
  };
  if (s.policies.placement.host) {
    if (layer == 0) prefetch(0);
    if (layer + 1 < shape_.layers) prefetch(layer + 1);
  }
  return with_error_prefix(selection_at(s, layer), [&] {
    return offloaded.begin_step(s.cache.layer(layer), pinned_of(s.policies.selection.get(), layer),
                                s.generated, ledger_of(s, layer));
  });
}

LedgerEntry& Engine::ledger_of(Sequence& s, int layer) {
  return s.policies.placement.host ? s.counters.ledger.now(layer) : uncounted_;
}

RopeTable Engine::rope_table(Stage& stage, std::int64_t positions) {
  constexpr std::int64_t kMore = 1024;
  if (stage.table_cos.view.rows < positions) {
    const std::int64_t rows = (positions / kMore + 1) * kMore;
    stage.table_cos.make_room(rows, shape_.head_dim / 2);
    stage.table_sin.make_room(rows, shape_.head_dim / 2);
    std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    compute_rope(stage, all, stage.table_cos.data(), stage.table_sin.data());
  }
  return {stage.table_cos.view, stage.table_sin.view};
}

std::vector<std::vector<std::int32_t>> Engine::fetch(Sequence& s, const LayerView& view,
                                                     const Selection& selection) {
  const int layer = view.layer;
  std::unique_ptr<OffloadedLayer>& offloaded = s.offloaded[static_cast<std::size_t>(layer)];
  const auto& host = s.cache.layer(layer);
  LedgerEntry& ledger = ledger_of(s, layer);
  std::vector<std::vector<std::int32_t>> all;
  if (selection.all()) {
    const int per_set = offloaded->options().lists_per_set;
    for (const KvHeadCache& set : host)
      all.insert(all.end(), static_cast<std::size_t>(per_set), all_slots(set.size()));
  }
  const auto& lists = selection.all() ? all : selection.slots;
  OffloadedLayer::Rebuild rebuild;
  if (s.policies.selection && s.policies.selection->rebuilds_keys()) {
    rebuild = [&](std::span<const SlotCopy> tokens) {
      const RopeTable rope = rope_table(stage_of(layer), view.first_position + view.rows);
      s.policies.selection->rebuild_keys(view, {offloaded->sets(), tokens, rope});
    };
  }
  return with_error_prefix(selection_at(s, layer), [&] {
    offloaded->make_room(host, lists, pinned_of(s.policies.selection.get(), layer), s.generated,
                         ledger);
    return offloaded->fetch(host, lists, ledger, rebuild, [&](std::size_t count, const auto& task) {
      view.backend->parallel_for(count, task);
    });
  });
}

std::vector<std::int32_t> Engine::hold(Sequence& s, int layer,
                                       std::span<const std::int32_t> positions) {
  HeldLayer& held = *s.held[static_cast<std::size_t>(layer)];
  const std::int32_t end = s.cache.layer(layer).front().size(),
                     first = end - static_cast<std::int32_t>(positions.size());
  if (!held.goes_on_with(s.policies.selection->pinned(layer, end)))
    replace_held(s, layer, first, end);
  held.settle();
  return held.extend(positions);
}

void Engine::replace_held(Sequence& s, int layer, std::int32_t first, std::int32_t end) {
  const SelectionPolicy& selection = *s.policies.selection;
  const Stages& stages = model_.stages();
  struct Change {
    int layer;
    HeldLayer& held;
    std::vector<SlotRange> pinned;
    std::size_t stay;  // ranges
  };
  std::vector<Change> changes;
  std::size_t most = 0;  // ranges
  for (int l = layer; l < stages.first_layer(stages.stage_of(layer) + 1); ++l) {
    HeldLayer* held = s.held[static_cast<std::size_t>(l)].get();
    if (held == nullptr) continue;
    std::vector<SlotRange> pinned = selection.pinned(l, end);
    if (held->goes_on_with(pinned)) continue;
    most = std::max(most, pinned.size());
    const std::size_t stay = held->let_go(pinned);
    changes.push_back({l, *held, std::move(pinned), stay});
  }
  std::vector<Copy> copies;
  const auto submit = [&](int l) -> Link::Ticket {
    if (copies.empty()) return 0;
    return stage_of(l).link->submit(std::exchange(copies, {}), LinkDirection::kToDevice,
                                    LinkUse::kPrefill, &s.counters.ledger.now(l).prefill_bytes);
  };
  const auto add = [&](Change& change, std::size_t range) {
    change.held.add_range(change.pinned[range], first, s.cache.layer(change.layer), copies);
  };
  if (selection.loads_by_layer()) {
    for (Change& change : changes) {
      for (std::size_t r = change.stay; r < change.pinned.size(); ++r) {
        add(change, r);
        change.held.expect(submit(change.layer));
      }
    }
    return;
  }
  for (std::size_t r = 0; r < most; ++r) {  // one submission each, of all layers
    for (Change& change : changes) {
      if (r >= change.stay && r < change.pinned.size()) add(change, r);
    }
    const Link::Ticket ticket = submit(layer);
    for (Change& change : changes) change.held.expect(ticket);
  }
}

void Engine::make_working_set(Sequence& s, int layer, const DeviceNeeds& needs,
                              const SelectionPolicy* selection) {
  const Stage& stage = stage_of(layer);
  const auto& sets = s.cache.layer(layer);
  std::int32_t longest = 0;
  for (const KvHeadCache& set : sets) longest = std::max(longest, set.size());
  const auto options = with_error_prefix(s.policies.method, [&] {
    return working_set_options(s.policies.placement, needs, static_cast<int>(sets.size()), longest);
  });
  std::unique_ptr<OffloadedLayer>& offloaded = s.offloaded[static_cast<std::size_t>(layer)];
  offloaded = std::make_unique<OffloadedLayer>(
      options, needs, s.cache.pool(layer), s.policies.placement.host ? stage.link : stage.within);
  with_error_prefix(selection_at(s, layer),
                    [&] { offloaded->start(sets, pinned_of(selection, layer)); });
}

void Engine::move_in_answers(std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    Sequence& s = *pass.sequence;
    const SelectionPolicy* selection = s.policies.selection.get();
    if (pass.kind != Pass::Kind::kDecode || !s.policies.moves_in_answers()) continue;
    for (int l = 0; l < shape_.layers; ++l) {
      const auto at = static_cast<std::size_t>(l);
      auto& sets = s.cache.layer(l);
      Stage& stage = stage_of(l);
      if (s.offloaded[at] != nullptr || s.held[at] != nullptr) continue;
      PromptSize size{shape_, sets.front().layout().dtype,
                      l,      static_cast<int>(sets.size()),
                      0,      s.prompt_tokens};
      for (const KvHeadCache& set : sets) size.tokens = std::max(size.tokens, set.size());
      const DeviceNeeds needs = selection->needs_in_answer(size);
      if (needs.everything) continue;
      make_working_set(s, l, needs, selection);
      const Selection last = std::exchange(s.last_read[at], {});
      if (!last.all()) s.offloaded[at]->take_in(sets, last.slots);
      std::vector<KvHeadCache> host(sets.size(),
                                    KvHeadCache(stage.host_pool_like(*s.cache.pool(l))));
      append_over(*stage.link, LinkDirection::kToHost, LinkUse::kWriteback, sets, host,
                  s.counters.ledger.now(l).writeback_bytes);
      sets = std::move(host);
    }
  }
}

void Engine::fetch_ahead(int after, std::span<const Pass> passes, Layout& layout) {
  layout.ahead.resize(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    if (passes[i].kind != Pass::Kind::kDecode || !s.policies.placement.host ||
        !s.policies.selection || s.policies.selection->selects_ahead(shape_) != after)
      continue;
    layout.ahead[i].resize(static_cast<std::size_t>(shape_.layers));
    const std::int64_t row = layout.first_row[i];
    for (int l = after + 1; l < shape_.layers; ++l) {
      const auto at = static_cast<std::size_t>(l);
      if (s.offloaded[at] == nullptr) continue;
      const Stage& stage = stage_of(l);
      auto& sets = s.cache.layer(l);
      for (KvHeadCache& set : sets) set.extend(std::span(layout.positions).subspan(row, 1));
      auto ahead = std::make_shared<Layout::Ahead>();
      ahead->new_slots = begin_offloaded_step(s, l);
      AttentionStats stats(stage.backend, shape_, scale_, model_.config().sliding_window[at], sets,
                           {}, &s.tails[at]);
      LayerView view{
          l, shape_,          sets,       stats, layout.dialogues[i], layout.positions[row],
          1, s.prompt_tokens, s.generated};
      add_tools(view, {});
      const auto start = Clock::now();
      ahead->selection = s.policies.selection->select(view);
      PolicyCheck{s.policies.method, l, shape_.heads}.selection(ahead->selection, sets);
      s.counters.policy_seconds += seconds_since(start);
      ahead->working_slots = fetch(s, view, ahead->selection);
      layout.ahead[i][at] = std::move(ahead);
    }
  }
}

void Engine::move_to_host(Sequence& s, int layer, const LayerView* view,
                          const SelectionPolicy* selection) {
  Stage& stage = stage_of(layer);
  auto& sets = s.cache.layer(layer);
  const bool on_host = s.policies.placement.host,
             rebuilds = view != nullptr && selection != nullptr && selection->rebuilds_keys();
  if (!on_host && !rebuilds) return;
  std::unique_ptr<HeldLayer>& held = s.held[static_cast<std::size_t>(layer)];
  if (held != nullptr) return;  // its new rows are on the host
  s.last_read[static_cast<std::size_t>(layer)] = {};
  if (rebuilds) check_cache_rule(*selection, s.policies.placement.rule, s.policies.method);
  if (!on_host) {
    s.offloaded[static_cast<std::size_t>(layer)].reset();
    const DeviceNeeds needs = selection->device_needs(*view);
    if (!needs.everything) make_working_set(s, layer, needs, selection);
    return;
  }
  LedgerEntry& ledger = s.counters.ledger.now(layer);
  // Without the pre-RoPE keys of a shared prefix if only others need them.
  const std::shared_ptr<KvPool>& host_pool = stage.host_pool_like(*s.cache.pool(layer));
  const auto copy = [&] {
    auto out = std::make_shared<HostCopy>();
    out->sets = std::exchange(s.host_copies[static_cast<std::size_t>(layer)], {});
    if (out->sets.empty()) out->sets.assign(sets.size(), KvHeadCache(host_pool));
    append_over(*stage.link, LinkDirection::kToHost, LinkUse::kWriteback, sets, out->sets,
                out->bytes);
    return out;
  };
  if (view == nullptr) {
    const std::shared_ptr<HostCopy> host = copy();
    ledger.writeback_bytes += host->bytes;
    sets = host->sets;
    return;
  }
  const DeviceNeeds needs =
      selection ? selection->device_needs(*view) : reading_everything(longest_set(*view));
  if (needs.everything) {
    s.host_copies[static_cast<std::size_t>(layer)].clear();
    return;
  }
  if (selection != nullptr && selection->reads_pinned_only()) {
    held = std::make_unique<HeldLayer>(s.cache.pool(layer), sets,
                                       selection->pinned(layer, longest_set(*view)), stage.link);
  } else {
    make_working_set(s, layer, needs, selection);
  }
  // All that go on from the same tokens share one copy.
  const char* key = host_pool->layout().pre_rope_keys ? "with pre-RoPE keys" : "without";
  const std::shared_ptr<const HostCopy> host =
      view->memo != nullptr ? view->memo->get<HostCopy>(key, copy) : copy();
  ledger.writeback_bytes += host->bytes;
  sets = host->sets;
}

void Engine::forget_evicted(Sequence& s, int layer) {
  s.last_read[static_cast<std::size_t>(layer)] = {};
  OffloadedLayer* offloaded = s.offloaded[static_cast<std::size_t>(layer)].get();
  if (offloaded == nullptr) return;
  offloaded->truncate(std::vector<std::int32_t>(s.cache.layer(layer).size(), 0));
}

}  // namespace turnbench
