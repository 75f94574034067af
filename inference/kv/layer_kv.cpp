#include "inference/kv/layer_kv.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

/// Appends to each KV set of `to` the tokens of `from` that it lacks, over the link.
void append_over(Link& link, LinkDirection direction, LinkUse use,
                 std::span<const KvHeadCache> from, std::span<KvHeadCache> to,
                 std::int64_t& account) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < from.size(); ++s) {
    to[s].append_slots(from[s], slots_between(to[s].size(), from[s].size()), copies);
  }
  link.submit(copies, direction, use, &account);
  link.synchronize();
}

std::int64_t slots_of(std::span<const KvHeadCache> sets) {
  std::int64_t out = 0;
  for (const KvHeadCache& set : sets) out += set.size();
  return out;
}

}  // namespace

LayerKv::LayerKv(int kv_heads, std::shared_ptr<const KvStorage> storage)
    : storage_(std::move(storage)), sets_(kv_heads, KvHeadCache(storage_->device)) {}

std::shared_ptr<Link> LayerKv::index_link() const {
  return in<WorkingSet>() != nullptr && from_host_ ? storage_->link : nullptr;
}

void LayerKv::begin_prompt(LedgerEntry& ledger) {
  if (in<PinnedLayer>() != nullptr) return;
  if (in<WorkingSet>() != nullptr) where_.emplace<OnDevice>();
  const std::shared_ptr<KvPool>& pool = sets_.front().pool();
  if (pool != storage_->host && pool != storage_->other_host) return;
  std::vector<KvHeadCache>& host = in<OnDevice>()->host;
  host = std::move(sets_);
  sets_.assign(host.size(), KvHeadCache(storage_->device));
  append_over(*storage_->link, LinkDirection::kToDevice, LinkUse::kPrefill, host, sets_,
              ledger.prefill_bytes);
}

void LayerKv::extend(std::span<const std::int32_t> positions) {
  if (auto* pinned = in<PinnedLayer>()) pinned->settle();
  for (KvHeadCache& set : sets_) set.extend(positions);
  if (!newest_) return;
  for (KvHeadCache& set : newest_->elements) set.extend(positions);
}

AppendPlan LayerKv::prompt_rows(int rows) {
  if (in<PinnedLayer>() != nullptr) return {};
  AppendPlan out{.sets = newest_ ? newest_->elements : sets_};
  for (const KvHeadCache& set : out.sets) out.first.push_back(set.size() - rows);
  return out;
}

AppendPlan LayerKv::step_row(const PinnedSlots& pinned, int answer, LedgerEntry& ledger) {
  if (auto* working = in<WorkingSet>())
    return {working->sets(), working->begin_step(sets_, pinned, answer, ledger), true};
  return prompt_rows(1);
}

AppendPlan LayerKv::pinned_rows(std::span<const std::int32_t> positions) {
  auto* pinned = in<PinnedLayer>();
  if (pinned == nullptr) return {};
  pinned->settle();
  std::vector<std::int32_t> first = pinned->extend(positions);
  return {pinned->sets(), std::move(first), true};
}

void LayerKv::written(const AppendPlan& plan, int rows, LedgerEntry& ledger) {
  if (!plan.writes_back) return;
  if (auto* pinned = in<PinnedLayer>()) return pinned->write_back(sets_, rows, ledger);
  in<WorkingSet>()->write_back(sets_, plan.first, ledger);
}

void LayerKv::settle() {
  if (auto* working = in<WorkingSet>()) working->settle();
}

void LayerKv::settle_pinned() {
  if (auto* pinned = in<PinnedLayer>()) pinned->settle();
}

Readable LayerKv::readable() {
  if (auto* pinned = in<PinnedLayer>()) return {.sets = pinned->sets(), .is_copy = true};
  return {.sets = sets_};
}

Readable LayerKv::fetch(const SlotLists& selected, bool all, const PinnedSlots& pinned, int answer,
                        LedgerEntry& ledger, const WorkingSet::Rebuild& rebuild,
                        const ForEach& for_each) {
  auto* working = in<WorkingSet>();
  if (working == nullptr) return readable();
  SlotLists every;
  for (std::size_t s = 0; all && s < sets_.size(); ++s) {
    every.insert(every.end(), working->options().lists_per_set, all_slots(sets_[s].size()));
  }
  const SlotLists& lists = all ? every : selected;
  working->make_room(sets_, lists, pinned, answer, ledger);
  SlotLists slots = working->fetch(sets_, lists, ledger, rebuild, for_each);
  return {std::as_const(*working).sets(), true, std::move(slots)};
}

void LayerKv::await_fetch() {
  if (auto* working = in<WorkingSet>()) working->await_fetch();
}

void LayerKv::end_step(LedgerEntry& ledger) {
  if (auto* working = in<WorkingSet>()) working->end_step(sets_, ledger);
}

PinnedLayer* LayerKv::to_repin(std::span<const SlotRange> pinned) {
  auto* layer = in<PinnedLayer>();
  return layer == nullptr || layer->is_extended_by(pinned) ? nullptr : layer;
}

std::shared_ptr<HostCopy> LayerKv::copy_to_host() {
  auto out = std::make_shared<HostCopy>();
  if (auto* device = in<OnDevice>()) out->sets = std::exchange(device->host, {});
  if (out->sets.empty()) out->sets.assign(sets_.size(), KvHeadCache(storage_->host));
  append_over(*storage_->link, LinkDirection::kToHost, LinkUse::kWriteback, sets_, out->sets,
              out->bytes);
  return out;
}

void LayerKv::stay_on_device() {
  where_.emplace<OnDevice>();
}

void LayerKv::use_working_set(const Residency::Options& options, const DeviceNeeds& needs,
                              const PinnedSlots& pinned, bool from_host) {
  auto& working = where_.emplace<WorkingSet>(options, needs, storage_->device,
                                             from_host ? storage_->link : storage_->within);
  from_host_ = from_host;
  working.start(sets_, pinned);
}

void LayerKv::use_pinned(std::span<const SlotRange> pinned) {
  where_.emplace<PinnedLayer>(storage_->device, sets_, pinned, storage_->link);
}

void LayerKv::remember_read(const SlotLists& selected) {
  if (auto* device = in<OnDevice>()) device->last_read = selected;
}

void LayerKv::offload_during_decode(const Residency::Options& options, const DeviceNeeds& needs,
                                    const PinnedSlots& pinned, LedgerEntry& ledger) {
  const SlotLists last = std::move(in<OnDevice>()->last_read);
  use_working_set(options, needs, pinned, true);
  if (!last.empty()) in<WorkingSet>()->take_in(sets_, last);
  const std::shared_ptr<HostCopy> host = copy_to_host();
  ledger.writeback_bytes += host->bytes;
  move_to(*host);
}

void LayerKv::convert(std::shared_ptr<const KvStorage> storage, std::vector<KvHeadCache> sets) {
  where_.emplace<OnDevice>();
  storage_ = std::move(storage);
  sets_ = std::move(sets);
  newest_.reset();
}

void LayerKv::begin_groups(std::shared_ptr<const KvStorage> storage,
                           std::vector<KvHeadCache> sets) {
  NewestTokens all{std::move(sets_), std::vector<NewestTokens::OfSet>(sets.size())};
  convert(std::move(storage), std::move(sets));
  newest_ = std::move(all);
}

void LayerKv::forget_slots() {
  if (auto* device = in<OnDevice>()) *device = {};
  if (auto* working = in<WorkingSet>())
    working->truncate(std::vector<std::int32_t>(sets_.size(), 0));
}

void LayerKv::truncate(std::int32_t position) {
  for (std::size_t s = 0; newest_ && s < sets_.size(); ++s) {
    const auto& [first, encoded] = newest_->of[s];
    const int left = sets_[s].lower_bound(position),
              needed = *std::max_element(encoded.begin(), encoded.end());
    if (left < needed) {
      throw runtime_error("truncate: found {} encoded tokens, expected at most the {} that stay",
                          needed, left);
    }
    newest_->elements[s].truncate(left - first);
  }
  for (KvHeadCache& set : sets_) set.truncate(set.lower_bound(position));
  if (auto* device = in<OnDevice>()) device->last_read.clear();
  if (auto* pinned = in<PinnedLayer>()) pinned->truncate(position);
  if (auto* working = in<WorkingSet>()) {
    std::vector<std::int32_t> left;
    for (const KvHeadCache& set : sets_) left.push_back(set.size());
    working->truncate(left);
  }
}

std::int64_t LayerKv::resident_slots() const {
  if (const auto* pinned = in<PinnedLayer>()) return slots_of(pinned->sets());
  const auto* working = in<WorkingSet>();
  return (working != nullptr ? slots_of(working->sets()) : 0) +
         (working == nullptr || !from_host_ ? slots_of(sets_) : 0);
}

std::int64_t LayerKv::added_slots() const {
  const auto* working = in<WorkingSet>();
  return working != nullptr ? working->added_slots() : 0;
}

}  // namespace turnbench
