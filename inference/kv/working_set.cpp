#include "inference/kv/working_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

/// Copies per submission: the link runs these while the next ones are looked up.
constexpr std::size_t kCopiesAtOnce = 2048;
/// Prefetch distance of the look-up, in copies.
constexpr std::size_t kCopiesAhead = 12;

/// The maximal number of tokens selected by lists that share device slots, or an upper bound of it
/// that is at most `room`.
std::int64_t most_selected(std::span<const std::vector<std::int32_t>> lists,
                           const Residency::Options& options, std::int64_t room) {
  const auto together = static_cast<std::size_t>(options.per_list ? 1 : options.lists_per_set);
  std::int64_t most = 0;
  std::vector<std::int32_t> all;
  for (std::size_t first = 0; first < lists.size(); first += together) {
    const auto group = lists.subspan(first, together);
    std::int64_t tokens = 0;
    for (const auto& list : group) tokens += std::ssize(list);
    if (together > 1 && tokens > room) {
      all.clear();
      for (const auto& list : group) all.insert(all.end(), list.begin(), list.end());
      std::sort(all.begin(), all.end());
      tokens = std::unique(all.begin(), all.end()) - all.begin();
    }
    most = std::max(most, tokens);
  }
  return most;
}

bool has_step_buffer(const Residency::Options& options) {
  return options.rule == Residency::Rule::kLru || options.rule == Residency::Rule::kLfu;
}

/// The maximal number of pinned tokens per set.
std::int64_t most_pinned(std::span<const KvHeadCache> sets, const PinnedSlots& pinned) {
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

WorkingSet::WorkingSet(const Residency::Options& options, const DeviceNeeds& needs,
                       const std::shared_ptr<KvPool>& device, std::shared_ptr<Link> link)
    : residency_(Residency::make(options)),
      needs_(needs),
      first_slots_(residency_->device_slots()),
      link_(std::move(link)) {
  for (int s = 0; s < options.sets; ++s)
    sets_.push_back(KvHeadCache::working_set(device, residency_->device_slots()));
}

WorkingSet::WorkingSet(const WorkingSet& other)
    : residency_(other.residency_->clone()),
      needs_(other.needs_),
      first_slots_(other.first_slots_),
      sets_((other.link_->wait(other.last_), other.sets_)),
      link_(other.link_) {}

WorkingSet::~WorkingSet() {
  try {
    settle();
  } catch (...) {  // later readers of the failed copies get the error
  }
}

void WorkingSet::start(std::span<const KvHeadCache> sets, const PinnedSlots& pinned) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    for (const SlotCopy& c :
         residency_->pin(static_cast<int>(s), pinned(static_cast<int>(s), sets[s].size())))
      sets_[s].place(c.device, sets[s], c.host, c.count, copies);
  }
  sets_.front().pool()->memory().copy(copies);
}

void WorkingSet::take_in(std::span<const KvHeadCache> sets,
                         std::span<const std::vector<std::int32_t>> lists) {
  std::vector<std::int32_t> tokens;
  for (const KvHeadCache& set : sets) tokens.push_back(set.size());
  std::vector<Copy> copies;
  for (const SlotCopy& c : residency_->step(lists, tokens).loads) {
    const auto s = static_cast<std::size_t>(c.set);
    sets_[s].place(c.device, sets[s], c.host, c.count, copies, needs_.keys);
  }
  sets_.front().pool()->memory().copy(copies);
}

void WorkingSet::settle() {
  link_->wait(last_);
}

std::int64_t WorkingSet::added_slots() const {
  return std::int64_t{residency_->device_slots() - first_slots_} * std::ssize(sets_);
}

std::vector<std::int32_t> WorkingSet::begin_step(std::span<const KvHeadCache> host,
                                                 const PinnedSlots& pinned, int answer,
                                                 LedgerEntry& ledger) {
  settle();
  not_on_host_ = 1;
  if (const std::int64_t most = most_pinned(host, pinned); most > options().pinned_tokens) {
    if (most > std::int64_t{needs_.pinned_tokens} + answer) {
      throw runtime_error(
          "found {} pinned tokens of a KV set, expected at most the {} of DeviceNeeds and {} of "
          "the answer",
          most, needs_.pinned_tokens, answer);
    }
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
      if (copy.host + copy.count > newest) {  // the new token's rows are computed in this step
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

void WorkingSet::write_back(std::span<KvHeadCache> host, std::span<const std::int32_t> slots,
                            LedgerEntry& ledger) {
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < sets_.size(); ++s)
    host[s].place(host[s].size() - 1, sets_[s], slots[s], 1, copies);
  last_ =
      link_->submit(copies, LinkDirection::kToHost, LinkUse::kWriteback, &ledger.writeback_bytes);
  not_on_host_ = 0;
}

std::vector<std::vector<std::int32_t>> WorkingSet::fetch(
    std::span<const KvHeadCache> host, std::span<const std::vector<std::int32_t>> lists,
    LedgerEntry& ledger, const Rebuild& rebuild, const ForEach& for_each) {
  std::vector<std::int32_t> tokens;
  for (const KvHeadCache& set : host) tokens.push_back(set.size() - not_on_host_);
  Residency::Step step = residency_->step(lists, tokens, for_each);
  fills_ = std::move(step.fills);
  ledger.hits += step.hits;
  ledger.misses += step.misses;
  ledger.evictions += step.evictions;
  load(host, step.loads, rebuild ? KeyRows::kNone : needs_.keys, LinkUse::kKvFetch,
       ledger.kv_fetch_bytes);
  if (rebuild && !step.loads.empty()) rebuild(sets_, step.loads);  // while values are transferred
  fetched_ = last_;
  return step.slots;
}

void WorkingSet::await_fetch() {
  link_->wait(fetched_);
}

std::int64_t WorkingSet::blocks_of(std::span<const KvHeadCache> host) const {
  const std::int64_t tokens = std::max(0, longest_set(host) - options().first);
  return (tokens + options().block - 1) / options().block;
}

void WorkingSet::make_room(std::span<const KvHeadCache> host,
                           std::span<const std::vector<std::int32_t>> lists,
                           const PinnedSlots& pinned, int answer, LedgerEntry& ledger) {
  Residency::Options roomier = options();
  // If cache blocks differ from the blocks that steps read, each token may need a separate block.
  const std::int64_t slots_each = needs_.block > 0 ? 1 : roomier.block;
  const std::int64_t promised =
      needs_.step_tokens / (roomier.per_list ? roomier.lists_per_set : 1) + needs_.pinned_tokens;
  const std::int64_t blocks = blocks_of(host);  // a step cannot read more of them
  const bool has_all = !has_step_buffer(roomier) && roomier.cache_tokens / roomier.block >= blocks;
  const std::int64_t room =
      has_all
          ? std::numeric_limits<std::int64_t>::max()
          : roomier.pinned_tokens + (has_step_buffer(roomier) ? roomier.step_tokens
                                                              : roomier.cache_tokens / slots_each);
  const std::int64_t most = most_selected(lists, roomier, std::min(room, promised));
  if (most > promised + answer) {
    throw runtime_error(
        "found {} selected tokens of a KV set, expected at most the {} of DeviceNeeds and {} of "
        "the answer",
        most, promised, answer);
  }
  if (most <= room) return;
  settle();
  if (has_step_buffer(roomier)) {
    roomier.step_tokens = static_cast<std::int32_t>(2 * most);
  } else {
    const std::int64_t read = slots_each > 1 ? std::min(most, blocks) : most;
    roomier.cache_tokens = static_cast<std::int32_t>(2 * read * slots_each);
  }
  renew(roomier, host, 0, pinned, ledger);
}

void WorkingSet::renew(const Residency::Options& options, std::span<const KvHeadCache> host,
                       int newest, const PinnedSlots& pinned, LedgerEntry& ledger) {
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

void WorkingSet::end_step(std::span<const KvHeadCache> host, LedgerEntry& ledger) {
  load(host, std::exchange(fills_, {}), needs_.keys, LinkUse::kCacheFill, ledger.cache_fill_bytes);
}

void WorkingSet::truncate(std::span<const std::int32_t> tokens) {
  settle();
  residency_->truncate(tokens);
}

void WorkingSet::load(std::span<const KvHeadCache> host, std::span<const SlotCopy> tokens,
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
      host[later.set].prefetch_position(later.host);
    }
    sets_[s].place(t.device, host[s], t.host, t.count, copies, keys);
    if (copies.size() >= kCopiesAtOnce) submit();
  }
  submit();
}

}  // namespace turnbench
