#include "inference/engine/kv_transfers.h"

#include <memory>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "inference/engine/encoded_rows.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {

namespace {

PinnedSlots pinned_of(const SelectionPolicy* selection, int layer) {
  return [selection, layer](int set, int tokens) -> std::vector<SlotRange> {
    if (selection == nullptr && tokens == 0) return {};  // an eviction has kept no token
    if (selection == nullptr) return {{tokens - 1, tokens}};
    std::vector<SlotRange> out = selection->pinned(layer, set, tokens);
    check_pinned(out, set, tokens);
    return out;
  };
}

/// Names the selection policy of a sequence and the layer, for messages.
std::string selection_at(const Sequence& s, int layer) {
  return PolicyCheck{s.policies.method, layer, s.shape().heads}.where("selection");
}

/// The pinned tokens of a layer whose sets are equal.  selection: the one that has read the prompt;
/// until the end of a shared prompt, that of a fork has not.
std::vector<SlotRange> pinned_in_all(const Sequence& s, const SelectionPolicy* selection, int layer,
                                     std::int32_t tokens) {
  return with_error_prefix(selection_at(s, layer),
                           [&] { return pinned_of(selection, layer)(0, tokens); });
}

}  // namespace

void KvTransfers::encode_history(Sequence& s) {
  const RowCodec* codec = s.policies.row_codec();
  if (codec == nullptr) return;
  const EncodedBytes bytes = s.policies.prefill_bytes(core_.shape.head_dim);
  for (int l = 0; l < core_.shape.layers; ++l) {
    LayerKv& kv = s.at(l).kv;
    const PageLayout& layout = kv.pool()->layout();
    if (layout.encoded == bytes) continue;
    if (layout.is_encoded()) {
      throw runtime_error("{}: found a cache with the rows of another codec, expected its own",
                          s.policies.method);
    }
    kv.settle();
    kv.settle_pinned();
    Stage& stage = core_.stage_of(l);
    const auto& storage = stage.storage_of(layout.pre_rope_keys, bytes);
    kv.convert(storage, encoded_sets(*codec, stage.backend, kv.sets(), storage->device));
  }
}

void KvTransfers::begin_ledgers(const Pass& pass) {
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

IndexPath KvTransfers::index_path(Sequence& s, int layer) {
  const std::shared_ptr<Link> link = s.at(layer).kv.index_link();
  if (link == nullptr) return {};
  return {link, core_.stage_of(layer).memory, &s.counters.ledger.now(layer)};
}

AppendPlan KvTransfers::append_step(Sequence& s, int layer,
                                    std::span<const std::int32_t> position) {
  LayerKv& kv = s.at(layer).kv;
  kv.extend(position);
  const auto prefetch = [&](int l) {
    const IndexPath path = index_path(s, l);
    if (path.link == nullptr) return;
    if (auto* index = capability<IndexTransfer>(s.policies.selection.get()))
      index->prefetch(l, path);
  };
  if (layer == 0) prefetch(0);
  if (layer + 1 < core_.shape.layers && index_path(s, layer).link != nullptr) prefetch(layer + 1);
  AppendPlan pinned = pinned_rows(s, layer, position);
  if (!pinned.sets.empty()) return pinned;
  return with_error_prefix(selection_at(s, layer), [&] {
    return kv.step_row(pinned_of(s.policies.selection.get(), layer), s.generated,
                       ledger_of(s, layer));
  });
}

LedgerEntry& KvTransfers::ledger_of(Sequence& s, int layer) {
  return s.policies.placement.host ? s.counters.ledger.now(layer) : uncounted_;
}

Readable KvTransfers::fetch(Sequence& s, const LayerView& view, const Selection& selection) {
  const int layer = view.layer;
  WorkingSet::Rebuild rebuild;
  if (auto* rebuilder = capability<KeyRebuilder>(s.policies.selection.get())) {
    rebuild = [&, rebuilder](std::span<KvHeadCache> sets, std::span<const SlotCopy> tokens) {
      const RopeTable rope =
          core_.rope_table(core_.stage_of(layer), view.first_position + view.rows);
      rebuilder->rebuild_keys(view, {sets, tokens, rope});
    };
  }
  return with_error_prefix(selection_at(s, layer), [&] {
    return s.at(layer).kv.fetch(
        selection.slots, selection.all(), pinned_of(s.policies.selection.get(), layer), s.generated,
        ledger_of(s, layer), rebuild,
        [&](std::size_t count, const auto& task) { view.backend->parallel_for(count, task); });
  });
}

AppendPlan KvTransfers::pinned_rows(Sequence& s, int layer,
                                    std::span<const std::int32_t> positions) {
  const auto zone = core_.zone(Phase::kFetch, layer);
  LayerKv& kv = s.at(layer).kv;
  const std::int32_t end = kv.sets().front().size(),
                     first = end - static_cast<std::int32_t>(positions.size());
  const SelectionPolicy* selection = s.policies.selection.get();
  if (kv.pinned_layer() != nullptr &&
      kv.to_repin(pinned_in_all(s, selection, layer, end)) != nullptr)
    repin(s, layer, first, end);
  return kv.pinned_rows(positions);
}

void KvTransfers::repin(Sequence& s, int layer, std::int32_t first, std::int32_t end) {
  const SelectionPolicy& selection = *s.policies.selection;
  const Stages& stages = core_.model.stages();
  struct Change {
    int layer;
    PinnedLayer& held;
    std::vector<SlotRange> pinned;
    std::size_t stay;  // ranges
  };
  std::vector<Change> changes;
  std::size_t most = 0;  // ranges
  for (int l = layer; l < stages.first_layer(stages.stage_of(layer) + 1); ++l) {
    LayerKv& kv = s.at(l).kv;
    if (kv.pinned_layer() == nullptr) continue;
    std::vector<SlotRange> pinned = pinned_in_all(s, &selection, l, end);
    PinnedLayer* held = kv.to_repin(pinned);
    if (held == nullptr) continue;
    most = std::max(most, pinned.size());
    const std::size_t stay = held->drop_ranges(pinned);
    changes.push_back({l, *held, std::move(pinned), stay});
  }
  std::vector<Copy> copies;
  const auto submit = [&](int l) -> Link::Ticket {
    if (copies.empty()) return 0;
    return core_.stage_of(l).link->submit(std::exchange(copies, {}), LinkDirection::kToDevice,
                                          LinkUse::kPrefill,
                                          &s.counters.ledger.now(l).prefill_bytes);
  };
  const auto add = [&](Change& change, std::size_t range) {
    change.held.add_range(change.pinned[range], first, s.sets(change.layer), copies);
  };
  if (selection.traits().loads_by_layer) {
    for (Change& change : changes) {
      for (std::size_t r = change.stay; r < change.pinned.size(); ++r) {
        add(change, r);
        change.held.expect(submit(change.layer));
      }
    }
    return;
  }
  for (std::size_t r = 0; r < most; ++r) {  // one submission per range, for all layers
    for (Change& change : changes) {
      if (r >= change.stay && r < change.pinned.size()) add(change, r);
    }
    const Link::Ticket ticket = submit(layer);
    for (Change& change : changes) change.held.expect(ticket);
  }
}

Residency::Options KvTransfers::working_set_of(const Sequence& s, int layer,
                                               const DeviceNeeds& needs) {
  const LayerKv& kv = s.at(layer).kv;
  return with_error_prefix(s.policies.method, [&] {
    return working_set_options(s.policies.placement, needs, static_cast<int>(kv.sets().size()),
                               longest_set(kv.sets()));
  });
}

void KvTransfers::offload_during_decode(std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    Sequence& s = *pass.sequence;
    const SelectionPolicy* selection = s.policies.selection.get();
    const OffloadsDuringDecode* offloads = s.policies.offloads_during_decode();
    if (pass.kind != Pass::Kind::kDecode || offloads == nullptr) continue;
    for (int l = 0; l < core_.shape.layers; ++l) {
      LayerKv& kv = s.at(l).kv;
      if (kv.is_offloaded()) continue;
      const PromptSize size{core_.shape,
                            kv.sets().front().layout().dtype,
                            l,
                            static_cast<int>(kv.sets().size()),
                            longest_set(kv.sets()),
                            s.prompt_tokens};
      const DeviceNeeds needs = offloads->demand_while_decoding(size);
      if (needs.everything) continue;
      const Residency::Options options = working_set_of(s, l, needs);
      with_error_prefix(selection_at(s, l), [&] {
        kv.offload_during_decode(options, needs, pinned_of(selection, l), s.counters.ledger.now(l));
      });
    }
  }
}

void KvTransfers::fetch_ahead(int after, std::span<const Pass> passes, ForwardBatch& batch) {
  batch.ahead.resize(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    const auto* ahead_of_layers = capability<SelectsAhead>(s.policies.selection.get());
    if (passes[i].kind != Pass::Kind::kDecode || !s.policies.placement.host ||
        ahead_of_layers == nullptr)
      continue;
    const LayerRange known = ahead_of_layers->known_after(after, core_.shape);
    if (known.begin >= known.end) continue;
    batch.ahead[i].resize(static_cast<std::size_t>(core_.shape.layers));
    const std::int64_t row = batch.first_row[i];
    for (int l = known.begin; l < known.end; ++l) {
      LayerState& state = s.at(l);
      if (state.kv.working_set() == nullptr) continue;
      const auto zone = core_.zone(Phase::kSelect, l);
      Stage& stage = core_.stage_of(l);
      auto ahead = std::make_shared<ForwardBatch::Ahead>();
      ahead->row = append_step(s, l, std::span(batch.positions).subspan(row, 1));
      std::vector<KvHeadCache> decoded;
      const std::span<const KvHeadCache> sets = decoded_sets(core_, s, l, s.sets(l), decoded);
      AttentionStats stats(stage.backend, core_.shape, core_.scale,
                           core_.model.config().sliding_window[l], sets, {}, &state.tail);
      LayerView view{l,     core_.shape,        sets,
                     stats, batch.dialogues[i], batch.positions[row],
                     1,     s.prompt_tokens,    s.generated};
      core_.add_tools(view, {});
      view.scratch->clear();
      const auto start = Clock::now();
      ahead->selection = s.policies.selection->select(view);
      PolicyCheck{s.policies.method, l, core_.shape.heads}.selection(ahead->selection,
                                                                     *s.policies.selection, sets);
      s.counters.policy_seconds += seconds_since(start);
      const auto transfer = core_.zone(Phase::kFetch, l);
      const std::int64_t slots = state.kv.working_set()->added_slots();
      ahead->readable = fetch(s, view, ahead->selection);
      if (state.kv.working_set()->added_slots() != slots) {  // `row` is in the former working set
        throw runtime_error(
            "{}: layer {}: found a selection made ahead that reads more tokens than DeviceNeeds, "
            "expected tokens of the answer to be pinned",
            s.policies.method, l);
      }
      batch.ahead[i][l] = std::move(ahead);
    }
  }
}

void KvTransfers::move_to_host(Sequence& s, int layer, const LayerView* view,
                               const SelectionPolicy* selection) {
  LayerKv& kv = s.at(layer).kv;
  const bool on_host = s.policies.placement.host,
             rebuilds = view != nullptr && capability<KeyRebuilder>(selection) != nullptr;
  if (!on_host && !rebuilds) return;
  if (kv.pinned_layer() != nullptr) return;  // its new rows are already on the host
  const auto zone = core_.zone(Phase::kFetch, layer);
  if (rebuilds) check_cache_rule(*selection, s.policies.placement.rule, s.policies.method);
  if (view == nullptr) {
    const std::shared_ptr<HostCopy> host = kv.copy_to_host();
    s.counters.ledger.now(layer).writeback_bytes += host->bytes;
    kv.move_to(*host);
    return;
  }
  const DeviceNeeds needs =
      selection ? demand_at(*selection, *view) : reading_everything(longest_set(view->sets));
  if (needs.everything) return kv.stay_on_device();
  std::shared_ptr<const HostCopy> host;
  if (on_host) {
    // All sequences that continue from the same tokens share one copy.
    const char* key = kv.pool()->layout().pre_rope_keys ? "with pre-RoPE keys" : "without";
    const auto copy = [&] { return kv.copy_to_host(); };
    host = view->memo != nullptr ? view->memo->get<HostCopy>(key, copy) : copy();
  }
  if (on_host && selection != nullptr && selection->traits().reads_pinned_only) {
    kv.use_pinned(pinned_in_all(s, selection, layer, longest_set(view->sets)));
  } else {
    const Residency::Options options = working_set_of(s, layer, needs);
    with_error_prefix(selection_at(s, layer), [&] {
      kv.use_working_set(options, needs, pinned_of(selection, layer), on_host);
    });
  }
  if (host == nullptr) return;
  s.counters.ledger.now(layer).writeback_bytes += host->bytes;
  kv.move_to(*host);
}

void KvTransfers::add_append_jobs(int layer, std::size_t pass, const ForwardBatch& batch,
                                  const AppendPlan& plan, std::vector<AppendJob>& jobs) {
  Stage& stage = core_.stage_of(layer);
  const auto raw = batch.pre_rope_keys ? stage.pre_rope_k.view : MatrixView<float>();
  const std::int64_t row = batch.first_row[pass], rows = batch.rows_of(pass);
  for (std::size_t s = 0; s < plan.sets.size(); ++s) {
    const std::int64_t kv_head =
        static_cast<std::int64_t>(s) * core_.shape.kv_heads / std::ssize(plan.sets);
    const auto own = [&](MatrixView<const float> all) {
      return all.rows_at(row, rows).columns_at(kv_head * core_.shape.head_dim,
                                               core_.shape.head_dim);
    };
    AppendJob& job = jobs.emplace_back();
    job.set = &plan.sets[s];
    job.first = plan.first[s];
    job.k = own(stage.k.view);
    job.v = own(stage.v.view);
    if (job.set->layout().pre_rope_keys) job.pre_rope_k = own(raw);
  }
}

void KvTransfers::append_keys(int layer, std::span<const Pass> passes, const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kQkv, layer);
  Backend& backend = core_.stage_of(layer).backend;
  std::vector<AppendJob> jobs;
  std::vector<AppendPlan> plans;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    LayerKv& kv = s.at(layer).kv;
    const std::int64_t rows = std::ssize(passes[i].tokens);
    const auto positions = std::span(batch.positions).subspan(batch.first_row[i], rows);
    if (passes[i].kind == Pass::Kind::kPrefill) {
      kv.begin_prompt(ledger_of(s, layer));
      kv.extend(positions);
      plans.push_back(kv.prompt_rows(static_cast<int>(rows)));
    } else {
      const ForwardBatch::Ahead* ahead = batch.ahead_of(i, layer);
      plans.push_back(ahead != nullptr ? ahead->row : append_step(s, layer, positions));
    }
    std::vector<AppendJob> encoded;
    const RowCodec* codec = s.policies.row_codec();
    add_append_jobs(layer, i, batch, plans.back(), codec != nullptr ? encoded : jobs);
    append_rows(backend, encoded, codec);
  }
  append_rows(backend, jobs);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Sequence& s = *passes[i].sequence;
    s.at(layer).kv.written(plans[i], static_cast<int>(passes[i].tokens.size()),
                           ledger_of(s, layer));
  }
}

}  // namespace turnbench
