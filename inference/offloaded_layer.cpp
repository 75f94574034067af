#include "inference/offloaded_layer.h"

#include <algorithm>
#include <utility>

namespace turnbench {
namespace {

/// Copies that the link is given together: it copies these while the next ones are looked up.
constexpr std::size_t kCopiesAtOnce = 2048;
/// How far ahead of what is looked up memory is asked for what will be.
constexpr std::size_t kCopiesAhead = 12;

/// The most tokens of a set that are pinned.
std::int64_t most_pinned(std::span<const KvHeadCache> sets, const OffloadedLayer::Pinned& pinned) {
  std::int64_t most = 0;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    std::int64_t tokens = 0;
    for (const SlotRange& r : pinned(static_cast<int>(s), sets[s].size()))
      tokens += r.end - r.begin;
    most = std::max(most, tokens);
  }
  return most;
}

}  // namespace

OffloadedLayer::OffloadedLayer(const Residency::Options& options,
                               const std::shared_ptr<KvPool>& device, std::shared_ptr<Link> link,
                               KeyRows keys_read)
    : residency_(Residency::make(options)), link_(std::move(link)), keys_read_(keys_read) {
  for (int s = 0; s < options.sets; ++s)
    sets_.push_back(KvHeadCache::working_set(device, residency_->device_slots()));
}

OffloadedLayer::OffloadedLayer(const OffloadedLayer& other)
    : residency_(other.residency_->clone()),
      sets_((other.link_->wait(other.last_), other.sets_)),
      link_(other.link_),
      keys_read_(other.keys_read_) {}

OffloadedLayer::~OffloadedLayer() {
  try {
    settle();
  } catch (...) {  // whoever reads what was to be copied is told
  }
}

void OffloadedLayer::start(std::span<const KvHeadCache> sets, const Pinned& pinned) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    for (const SlotCopy& c :
         residency_->pin(static_cast<int>(s), pinned(static_cast<int>(s), sets[s].size())))
      sets_[s].place(c.device, sets[s], c.host, c.count, copies);
  }
  sets_.front().pool()->memory().copy(copies);
}

void OffloadedLayer::take_in(std::span<const KvHeadCache> sets,
                             std::span<const std::vector<std::int32_t>> lists) {
  std::vector<std::int32_t> tokens;
  for (const KvHeadCache& set : sets) tokens.push_back(set.size());
  std::vector<Copy> copies;
  for (const SlotCopy& c : residency_->step(lists, tokens).loads) {
    const auto s = static_cast<std::size_t>(c.set);
    sets_[s].place(c.device, sets[s], c.host, c.count, copies, keys_read_);
  }
  sets_.front().pool()->memory().copy(copies);
}

void OffloadedLayer::settle() {
  link_->wait(last_);
}

std::vector<std::int32_t> OffloadedLayer::begin_step(std::span<const KvHeadCache> host,
                                                     const Pinned& pinned, LedgerEntry& ledger) {
  settle();
  not_on_host_ = 1;
  if (const std::int64_t most = most_pinned(host, pinned); most > options().pinned_tokens) {
    Residency::Options roomier = options();
    roomier.pinned_tokens = static_cast<std::int32_t>(2 * most);
    renew(roomier, host, 1, pinned, ledger);
    settle();
  }
  std::vector<std::int32_t> slots;
  std::vector<SlotCopy> loads;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    const std::int32_t newest = host[s].size() - 1;
    for (SlotCopy copy :
         residency_->pin(static_cast<int>(s), pinned(static_cast<int>(s), host[s].size()))) {
      if (copy.host + copy.count > newest) {  // the new token's rows come from this step
        slots.push_back(copy.device + (newest - copy.host));
        sets_[s].set_position(slots.back(), host[s].position(newest));
        --copy.count;
      }
      if (copy.count > 0) loads.push_back(copy);
    }
  }
  load(host, loads, KeyRows::kAll, LinkUse::kKvFetch, ledger.kv_fetch_bytes);
  return slots;
}

void OffloadedLayer::write_back(std::span<KvHeadCache> host, std::span<const std::int32_t> slots,
                                LedgerEntry& ledger) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s)
    host[s].place(host[s].size() - 1, sets_[s], slots[s], 1, copies);
  last_ =
      link_->submit(copies, LinkDirection::kToHost, LinkUse::kWriteback, &ledger.writeback_bytes);
  not_on_host_ = 0;
}

std::vector<std::vector<std::int32_t>> OffloadedLayer::fetch(
    std::span<const KvHeadCache> host, std::span<const std::vector<std::int32_t>> lists,
    LedgerEntry& ledger, const Rebuild& rebuild, const ForEach& for_each) {
  std::vector<std::int32_t> tokens;
  for (const KvHeadCache& set : host) tokens.push_back(set.size() - not_on_host_);
  Residency::Step step = residency_->step(lists, tokens, for_each);
  fills_ = std::move(step.fills);
  ledger.hits += step.hits;
  ledger.misses += step.misses;
  ledger.evictions += step.evictions;
  load(host, step.loads, rebuild ? KeyRows::kNone : keys_read_, LinkUse::kKvFetch,
       ledger.kv_fetch_bytes);
  if (rebuild && !step.loads.empty()) rebuild(step.loads);  // while values come over the link
  fetched_ = last_;
  return step.slots;
}

void OffloadedLayer::await_fetch() {
  link_->wait(fetched_);
}

void OffloadedLayer::make_room(std::span<const KvHeadCache> host, std::int32_t step_tokens,
                               const Pinned& pinned, LedgerEntry& ledger) {
  Residency::Options roomier = options();
  if (roomier.step_tokens >= step_tokens) return;
  settle();
  roomier.step_tokens = step_tokens;
  renew(roomier, host, 0, pinned, ledger);
}

void OffloadedLayer::renew(const Residency::Options& options, std::span<const KvHeadCache> host,
                           int newest, const Pinned& pinned, LedgerEntry& ledger) {
  residency_ = Residency::make(options);
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    sets_[s] = KvHeadCache::working_set(sets_[s].pool(), residency_->device_slots());
    for (const SlotCopy& c :
         residency_->pin(static_cast<int>(s), pinned(static_cast<int>(s), host[s].size() - newest)))
      sets_[s].place(c.device, host[s], c.host, c.count, copies);
  }
  last_ =
      link_->submit(copies, LinkDirection::kToDevice, LinkUse::kKvFetch, &ledger.kv_fetch_bytes);
}

void OffloadedLayer::end_step(std::span<const KvHeadCache> host, LedgerEntry& ledger) {
  load(host, std::exchange(fills_, {}), keys_read_, LinkUse::kCacheFill, ledger.cache_fill_bytes);
}

void OffloadedLayer::truncate(std::span<const std::int32_t> tokens) {
  settle();
  residency_->truncate(tokens);
}

void OffloadedLayer::load(std::span<const KvHeadCache> host, std::span<const SlotCopy> tokens,
                          KeyRows keys, LinkUse use, std::int64_t& account) {
  std::vector<Copy> copies;
  const auto submit = [&] {
    if (copies.empty()) return;
    last_ = link_->submit(copies, LinkDirection::kToDevice, use, &account);
    copies.clear();
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SlotCopy& t = tokens[i];
    const auto s = static_cast<std::size_t>(t.set);
    if (i + kCopiesAhead < tokens.size()) {
      const SlotCopy& later = tokens[i + kCopiesAhead];
      host[static_cast<std::size_t>(later.set)].prefetch_position(later.host);
    }
    sets_[s].place(t.device, host[s], t.host, t.count, copies, keys);
    if (copies.size() >= kCopiesAtOnce) submit();
  }
  submit();
}

void append_over(Link& link, LinkDirection direction, LinkUse use,
                 std::span<const KvHeadCache> from, std::span<KvHeadCache> to,
                 std::int64_t& account) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < from.size(); ++s) {
    const int first = to[s].size(), count = from[s].size() - first;
    std::vector<std::int32_t> positions;
    for (int slot = first; slot < from[s].size(); ++slot)
      positions.push_back(from[s].position(slot));
    to[s].extend(positions);
    to[s].place(first, from[s], first, count, copies);
  }
  link.submit(copies, direction, use, &account);
  link.synchronize();
}

}  // namespace turnbench
