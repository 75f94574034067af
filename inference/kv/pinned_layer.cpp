#include "inference/kv/pinned_layer.h"

#include <algorithm>
#include <utility>

namespace turnbench {

PinnedLayer::PinnedLayer(const std::shared_ptr<KvPool>& device, std::span<const KvHeadCache> sets,
                         std::span<const SlotRange> pinned, std::shared_ptr<Link> link)
    : link_(std::move(link)) {
  const bool holds_all =
      pinned.size() == 1 && pinned[0].begin == 0 && pinned[0].end == sets.front().size();
  if (holds_all && sets.front().layout() == device->layout()) {  // shares their pages
    sets_.assign(sets.begin(), sets.end());
    ranges_.assign(pinned.begin(), pinned.end());
    return;
  }
  sets_.assign(sets.size(), KvHeadCache(device));
  std::vector<Copy> copies;
  for (const SlotRange& range : pinned) add_range(range, range.end, sets, copies);
  device->memory().copy(copies);
}

PinnedLayer::PinnedLayer(const PinnedLayer& other)
    : sets_((other.link_->wait(other.last_), other.sets_)),
      ranges_(other.ranges_),
      link_(other.link_) {}

PinnedLayer::~PinnedLayer() {
  try {
    settle();
  } catch (...) {  // later readers of the failed copies get the error
  }
}

bool PinnedLayer::is_extended_by(std::span<const SlotRange> pinned) const {
  if (pinned.size() != ranges_.size()) return false;
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    const bool is_last = i + 1 == pinned.size();
    if (pinned[i].begin != ranges_[i].begin) return false;
    if (is_last ? pinned[i].end < ranges_[i].end : pinned[i].end != ranges_[i].end) return false;
  }
  return true;
}

std::size_t PinnedLayer::drop_ranges(std::span<const SlotRange> pinned) {
  settle();
  const SlotRange &first = pinned.front(), &held = ranges_.front();
  const bool stays = pinned.size() > 1 && first.begin == held.begin && first.end <= held.end;
  for (KvHeadCache& set : sets_) set.truncate(stays ? first.end - first.begin : 0);
  ranges_.clear();
  if (stays) ranges_.push_back(first);
  return ranges_.size();
}

void PinnedLayer::add_range(const SlotRange& range, std::int32_t end,
                            std::span<const KvHeadCache> host, std::vector<Copy>& copies) {
  const std::int32_t count = std::max(0, std::min(range.end, end) - range.begin);
  ranges_.push_back({range.begin, range.begin + count});
  const std::vector<std::int32_t> slots = slots_between(range.begin, range.begin + count);
  for (std::size_t s = 0; s < sets_.size(); ++s) sets_[s].append_slots(host[s], slots, copies);
}

std::vector<std::int32_t> PinnedLayer::extend(std::span<const std::int32_t> positions) {
  std::vector<std::int32_t> first;
  for (KvHeadCache& set : sets_) {
    first.push_back(set.size());
    set.extend(positions);
  }
  ranges_.back().end += static_cast<std::int32_t>(positions.size());
  return first;
}

void PinnedLayer::write_back(std::span<KvHeadCache> host, int rows, LedgerEntry& ledger) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s)
    host[s].place(host[s].size() - rows, sets_[s], sets_[s].size() - rows, rows, copies);
  last_ =
      link_->submit(copies, LinkDirection::kToHost, LinkUse::kWriteback, &ledger.writeback_bytes);
}

void PinnedLayer::settle() {
  link_->wait(last_);
}

void PinnedLayer::truncate(std::int32_t tokens) {
  settle();
  while (ranges_.size() > 1 && ranges_.back().begin >= tokens) ranges_.pop_back();
  ranges_.back().end = std::min(ranges_.back().end, tokens);
  std::int32_t left = 0;
  for (const SlotRange& range : ranges_) left += range.end - range.begin;
  for (KvHeadCache& set : sets_) set.truncate(left);
}

}  // namespace turnbench
