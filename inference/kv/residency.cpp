#include "inference/kv/residency.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr std::size_t kWorthDividing = 16384;  // selected tokens, of all lists

/// Called in every decode step: the loop has no early exit, so that it is vectorised.
bool ascends(std::span<const std::int32_t> slots) {
  int wrong = 0;
  for (std::size_t i = 1; i < slots.size(); ++i) wrong |= slots[i - 1] >= slots[i] ? 1 : 0;
  return wrong == 0;
}

/// Adds a copy, merged with the last one if it continues it.
void add_copy(std::vector<SlotCopy>& copies, const SlotCopy& copy) {
  if (copy.count == 0) return;
  if (!copies.empty()) {
    SlotCopy& last = copies.back();
    if (last.set == copy.set && last.host + last.count == copy.host &&
        last.device + last.count == copy.device) {
      last.count += copy.count;
      return;
    }
  }
  copies.push_back(copy);
}

/// Cached blocks that all KV sets of a layer share: entry e has the device slots from first_slot(e)
/// on in every set.
class LayerBlocks : public Residency {
 protected:
  struct Entry {
    std::int32_t block = -1;  // -1: free
    std::int64_t uses = 0;    // kLfu: insertions
    std::int64_t last = 0;    // time of the last insertion or selection
    bool placed = false;      // in this step
  };

  LayerBlocks(const Options& options, std::int32_t device_slots)
      : Residency(options, device_slots),
        entries_(static_cast<std::size_t>(block_capacity())),
        rows_(entries_.size() * static_cast<std::size_t>(options.sets)) {}

  /// The entry of a block; -1 if it is not cached.
  std::int32_t entry_of(std::int32_t block) const {
    const auto b = static_cast<std::size_t>(block);
    return b < entry_of_.size() ? entry_of_[b] : -1;
  }
  Entry& entry(std::int32_t e) { return entries_[e]; }
  std::vector<Entry>& entries() { return entries_; }
  std::int32_t first_slot(std::int32_t e) const {
    return options().pinned_tokens + e * options().block;
  }
  /// The number of copied rows of an entry in one set.
  std::int32_t& rows(std::int32_t e, int set) {
    return rows_[static_cast<std::size_t>(e) * static_cast<std::size_t>(options().sets) +
                 static_cast<std::size_t>(set)];
  }

  /// The device slot of a token; -1 if it is not on the device.
  std::int32_t slot_of(std::int32_t token, int set) {
    const std::int32_t block = block_of(token), e = entry_of(block), row = token - begin_of(block);
    return e >= 0 && row < rows(e, set) ? first_slot(e) + row : -1;
  }
  void put(std::int32_t block, std::int32_t e) {
    const auto b = static_cast<std::size_t>(block);
    if (b >= entry_of_.size()) entry_of_.resize(b + 1, -1);
    entry_of_[b] = e;
    entry(e) = {.block = block};
    for (int s = 0; s < options().sets; ++s) rows(e, s) = 0;
  }
  void remove(std::int32_t e) {
    entry_of_[entry(e).block] = -1;
    entry(e) = {};
  }
  /// Copies the rows of all sets by which the block of an entry has grown.
  void copy_grown(std::int32_t e, std::span<const std::int32_t> tokens,
                  std::vector<SlotCopy>& out) {
    const std::int32_t block = entry(e).block;
    for (int s = 0; s < options().sets; ++s) {
      const std::int32_t count = rows_of(block, tokens[s]), copied = std::min(rows(e, s), count);
      if (count == copied) continue;
      rows(e, s) = count;
      add_copy(out, {s, begin_of(block) + copied, first_slot(e) + copied, count - copied});
    }
  }

  void truncate_blocks(std::span<const std::int32_t> tokens) override {
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      const std::int32_t block = entry(e).block;
      if (block < 0) continue;
      std::int32_t left = 0;
      for (int s = 0; s < options().sets; ++s) {
        std::int32_t& copied = rows(e, s);
        copied = std::min(copied, rows_of(block, tokens[s]));
        left += copied;
      }
      if (left == 0) remove(e);
    }
  }

 private:
  std::vector<Entry> entries_;
  std::vector<std::int32_t> rows_;      // [entries, sets]
  std::vector<std::int32_t> entry_of_;  // [blocks]: -1 or an entry
};

/// Rules kLru and kLfu.
class InsertedBlocks : public LayerBlocks {
 public:
  explicit InsertedBlocks(const Options& options)
      : LayerBlocks(options, slots_before_buffer(options) + options.step_tokens) {}

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<InsertedBlocks>(*this);
  }

 private:
  /// A block and its selected tokens.
  struct Count {
    std::int32_t block = 0;
    std::int64_t tokens = 0;
  };

  static std::int32_t slots_before_buffer(const Options& options) {
    return options.pinned_tokens + options.cache_tokens / options.block * options.block;
  }

  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens, const ForEach&,
             const Placed& placed, Step& out) override {
    const std::int32_t buffer = slots_before_buffer(options());
    std::vector<Count> counts;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Wanted& w = wanted[i];
      std::int32_t missed = 0;
      for (const std::int32_t token : w.tokens) {
        const std::int32_t block = block_of(token);
        if (counts.empty() || counts.back().block != block) counts.push_back({block, 0});
        ++counts.back().tokens;
        std::int32_t slot = slot_of(token, w.set);
        if (slot >= 0) {
          ++out.hits;
        } else {
          slot = buffer + missed++;
          if (missed <= options().step_tokens) add_copy(out.loads, {w.set, token, slot, 1});
        }
        w.slots.push_back(slot);
      }
      if (missed > options().step_tokens) {
        throw runtime_error(
            "a step reads {} tokens of KV set {} that are not on the device, whose step buffer has "
            "{} slots",
            missed, w.set, options().step_tokens);
      }
      out.misses += missed;
      placed(i);
    }
    insert(most_selected(std::move(counts)), out);
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      if (!entry(e).placed) continue;
      entry(e).placed = false;
      copy_grown(e, tokens, out.fills);
    }
  }

  /// The blocks to insert into the cache, in this order.
  std::vector<std::int32_t> most_selected(std::vector<Count> counts) const {
    std::sort(counts.begin(), counts.end(),
              [](const Count& a, const Count& b) { return a.block < b.block; });
    std::vector<Count> sums;
    for (const Count& c : counts) {
      if (sums.empty() || sums.back().block != c.block) sums.push_back({c.block, 0});
      sums.back().tokens += c.tokens;
    }
    std::stable_sort(sums.begin(), sums.end(),
                     [](const Count& a, const Count& b) { return a.tokens > b.tokens; });
    sums.resize(std::min(sums.size(), static_cast<std::size_t>(options().insert_blocks)));
    std::vector<std::int32_t> out;
    for (auto it = sums.rbegin(); it != sums.rend(); ++it) out.push_back(it->block);
    return out;
  }

  void insert(const std::vector<std::int32_t>& blocks, Step& out) {
    if (block_capacity() == 0) return;
    for (const std::int32_t block : blocks) {
      std::int32_t e = entry_of(block);
      if (e < 0) {
        e = replaceable();
        if (entry(e).block >= 0) {
          if (!entry(e).placed) ++out.evictions;
          remove(e);
        }
        put(block, e);
      }
      ++entry(e).uses;
      entry(e).last = ++clock_;
      entry(e).placed = true;
    }
  }

  /// A free entry, or the one to replace.
  std::int32_t replaceable() {
    const auto goes_before = [&](const Entry& a, const Entry& b) {
      if (a.block < 0 || b.block < 0) return a.block < 0 && b.block >= 0;
      if (options().rule == Rule::kLfu && a.uses != b.uses) return a.uses < b.uses;
      return a.last < b.last;
    };
    const auto found = std::min_element(entries().begin(), entries().end(), goes_before);
    return static_cast<std::int32_t>(found - entries().begin());
  }

  std::int64_t clock_ = 0;
};

/// Rule kDemandLru.
class DemandedBlocks : public LayerBlocks {
 public:
  explicit DemandedBlocks(const Options& options)
      : LayerBlocks(options,
                    options.pinned_tokens + options.cache_tokens / options.block * options.block) {}

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<DemandedBlocks>(*this);
  }

 private:
  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens, const ForEach&,
             const Placed& placed, Step& out) override {
    std::vector<std::int32_t> selected;  // blocks
    for (const Wanted& w : wanted) {
      for (const std::int32_t token : w.tokens) {
        const std::int32_t block = block_of(token);
        if (selected.empty() || selected.back() != block) selected.push_back(block);
        ++(slot_of(token, w.set) >= 0 ? out.hits : out.misses);
      }
    }
    std::sort(selected.begin(), selected.end());
    selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
    if (std::ssize(selected) > block_capacity()) {
      throw runtime_error("a step reads {} blocks of {} tokens, the device has room for {}",
                          selected.size(), options().block, block_capacity());
    }
    ++clock_;
    std::int64_t absent = 0;
    for (const std::int32_t block : selected) {
      const std::int32_t e = entry_of(block);
      if (e < 0) {
        ++absent;
      } else {
        entry(e).last = clock_;
      }
    }
    evict(absent, out);
    std::int32_t free = 0;
    for (const std::int32_t block : selected) {
      if (entry_of(block) < 0) {
        while (entry(free).block >= 0) ++free;
        put(block, free);
        entry(free).last = clock_;
      }
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Wanted& w = wanted[i];
      for (const std::int32_t token : w.tokens) {
        if (slot_of(token, w.set) < 0) copy_grown(entry_of(block_of(token)), tokens, out.loads);
        w.slots.push_back(slot_of(token, w.set));
      }
      placed(i);
    }
  }

  /// Removes blocks that this step does not select until `count` entries are free.
  void evict(std::int64_t count, Step& out) {
    std::vector<std::int32_t> others;
    for (std::int32_t e = 0; e < block_capacity(); ++e) {
      if (entry(e).block < 0) {
        --count;
      } else if (entry(e).last != clock_) {
        others.push_back(e);
      }
    }
    if (count <= 0) return;
    std::sort(others.begin(), others.end(), [&](std::int32_t i, std::int32_t j) {
      const Entry &a = entry(i), &b = entry(j);
      return a.last != b.last ? a.last < b.last : a.block < b.block;
    });
    others.resize(static_cast<std::size_t>(count));
    for (const std::int32_t e : others) remove(e);
    out.evictions += count;
  }

  std::int64_t clock_ = 0;  // steps
};

/// Rule kPrevious.
class PreviousBlocks : public Residency {
 public:
  explicit PreviousBlocks(const Options& options)
      : Residency(options, options.pinned_tokens + owners_per_set(options) * slots_each(options)),
        caches_(static_cast<std::size_t>(options.sets * owners_per_set(options)),
                Cache{{}, SlotSet(device_slots())}) {
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      const auto owner = static_cast<std::int32_t>(i) % owners_per_set(options);
      for (std::int32_t b = 0; b < block_capacity(); ++b) {
        caches_[i].free.add(options.pinned_tokens + owner * slots_each(options) +
                            b * options.block);
      }
    }
  }

  std::unique_ptr<Residency> clone() const override {
    return std::make_unique<PreviousBlocks>(*this);
  }

 private:
  /// A block, the first of its device slots, and the number of its rows that were copied.
  struct Resident {
    std::int32_t block = 0, slot = 0, rows = 0;
  };
  /// The device slots of one KV set, or of one list.
  struct Cache {
    std::vector<Resident> blocks;  // ascending
    SlotSet free;                  // first slots of free blocks
  };

  static int owners_per_set(const Options& o) { return o.per_list ? o.lists_per_set : 1; }
  static std::int32_t slots_each(const Options& o) { return o.cache_tokens / o.block * o.block; }

  void place(std::span<Wanted> wanted, std::span<const std::int32_t> tokens,
             const ForEach& for_each, const Placed& placed, Step& out) override {
    for (const Wanted& w : wanted) {
      if (std::ssize(w.tokens) <= block_capacity()) continue;  // blocks <= tokens
      const std::size_t blocks = blocks_of(w.tokens).size();
      if (blocks <= static_cast<std::size_t>(block_capacity())) continue;
      throw runtime_error(
          "a step reads {} blocks of {} tokens of KV set {}, the device has room for {}", blocks,
          options().block, w.set, block_capacity());
    }
    std::vector<Step> parts(wanted.size());
    for_each(wanted.size(), [&](std::size_t i) {
      Wanted& w = wanted[i];
      replace(caches_[i], blocks_of(w.tokens), parts[i]);
      find(caches_[i], w, tokens[w.set], parts[i]);
      placed(i);
    });
    for (const Step& part : parts) {
      out.hits += part.hits;
      out.misses += part.misses;
      out.evictions += part.evictions;
      for (const SlotCopy& load : part.loads) add_copy(out.loads, load);
    }
  }

  /// The blocks of tokens, both ascending.
  std::vector<std::int32_t> blocks_of(std::span<const std::int32_t> tokens) const {
    std::vector<std::int32_t> out;
    out.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      const std::int32_t block = block_of(token);
      if (out.empty() || out.back() != block) out.push_back(block);
    }
    return out;
  }

  /// Makes `selected` (ascending) the blocks of a cache: new blocks get the slots of evicted ones.
  static void replace(Cache& cache, std::span<const std::int32_t> selected, Step& out) {
    std::vector<Resident> next;
    next.reserve(selected.size());
    auto old = cache.blocks.begin();
    const auto leave_before = [&](std::int32_t block) {
      for (; old != cache.blocks.end() && old->block < block; ++old) {
        cache.free.add(old->slot);
        ++out.evictions;
      }
    };
    for (const std::int32_t block : selected) {
      leave_before(block);
      const bool stays = old != cache.blocks.end() && old->block == block;
      next.push_back(stays ? *old++ : Resident{block, -1, 0});
    }
    leave_before(std::numeric_limits<std::int32_t>::max());
    const auto absent =
        std::count_if(next.begin(), next.end(), [](const Resident& r) { return r.slot < 0; });
    const auto taken = cache.free.take_lowest(static_cast<std::size_t>(absent));
    auto free = taken.begin();
    for (Resident& r : next) {
      if (r.slot < 0) r.slot = *free++;
    }
    cache.blocks = std::move(next);
  }

  /// Finds the slots of the wanted tokens, all of whose blocks are in the cache, and loads missing
  /// rows.
  void find(Cache& cache, Wanted& w, std::int32_t available, Step& out) const {
    auto resident = cache.blocks.begin();
    std::int32_t before = resident == cache.blocks.end() ? 0 : resident->rows;
    for (const std::int32_t token : w.tokens) {
      if (resident->block != block_of(token)) before = (++resident)->rows;
      const std::int32_t row = token - begin_of(resident->block);
      ++(row < before ? out.hits : out.misses);
      if (row >= resident->rows) {
        const std::int32_t copied =
            std::exchange(resident->rows, rows_of(resident->block, available));
        add_copy(out.loads, {w.set, begin_of(resident->block) + copied, resident->slot + copied,
                             resident->rows - copied});
      }
      w.slots.push_back(resident->slot + row);
    }
  }

  std::optional<std::int32_t> adopt(int set, std::int32_t token, std::int32_t slot) override {
    Cache& cache = caches_[set];
    if (options().block != 1 || options().per_list || token < options().first) {
      return std::nullopt;
    }
    const std::int32_t block = block_of(token);
    const auto at = std::lower_bound(cache.blocks.begin(), cache.blocks.end(), block,
                                     [](const Resident& r, std::int32_t b) { return r.block < b; });
    if (at != cache.blocks.end() && at->block == block) return std::nullopt;
    const std::vector<std::int32_t> free = cache.free.take_lowest(1);
    if (free.empty()) return std::nullopt;
    cache.blocks.insert(at, {block, slot, 1});
    return free.front();
  }

  void truncate_blocks(std::span<const std::int32_t> tokens) override {
    for (std::size_t i = 0; i < caches_.size(); ++i) {
      Cache& cache = caches_[i];
      const std::int32_t left = tokens[i / static_cast<std::size_t>(owners_per_set(options()))];
      for (Resident& r : cache.blocks) r.rows = std::min(r.rows, rows_of(r.block, left));
      while (!cache.blocks.empty() && cache.blocks.back().rows == 0) {
        cache.free.add(cache.blocks.back().slot);
        cache.blocks.pop_back();
      }
    }
  }

  std::vector<Cache> caches_;  // [sets], or [lists] with per_list
};

void check_options(const Residency::Options& o) {
  if (o.sets < 1 || o.lists_per_set < 1 || o.block < 1 || o.first < 0 || o.cache_tokens < 0 ||
      o.pinned_tokens < 0 || o.step_tokens < 0 || o.insert_blocks < 0) {
    throw input_error(
        "residency: found {} KV sets, {} lists per set, blocks of {} tokens from {} on, {} cached, "
        "{} pinned and {} buffered tokens, {} inserted blocks; expected at least 1 set, list and "
        "token per block, and nothing below 0",
        o.sets, o.lists_per_set, o.block, o.first, o.cache_tokens, o.pinned_tokens, o.step_tokens,
        o.insert_blocks);
  }
  if (o.per_list && o.rule != Residency::Rule::kPrevious) {
    throw input_error(
        "residency: found device slots for each list, with blocks that all lists share");
  }
  const std::int64_t caches = o.per_list ? o.lists_per_set : 1;
  const std::int64_t slots = caches * o.cache_tokens + o.pinned_tokens + o.step_tokens;
  if (slots > std::numeric_limits<std::int32_t>::max()) {
    throw input_error("residency: found {} device slots of a KV set, expected at most {}", slots,
                      std::numeric_limits<std::int32_t>::max());
  }
}

}  // namespace

void for_each_in_order(std::size_t count, const std::function<void(std::size_t)>& task) {
  for (std::size_t i = 0; i < count; ++i) task(i);
}

std::unique_ptr<Residency> Residency::make(const Options& options) {
  check_options(options);
  switch (options.rule) {
    case Rule::kLru:
    case Rule::kLfu:
      return std::make_unique<InsertedBlocks>(options);
    case Rule::kDemandLru:
      return std::make_unique<DemandedBlocks>(options);
    case Rule::kPrevious:
      break;
  }
  return std::make_unique<PreviousBlocks>(options);
}

std::int32_t Residency::rows_of(std::int32_t block, std::int32_t tokens) const {
  return std::clamp(tokens - begin_of(block), 0, options_.block);
}

void Residency::forget_pins() {
  Pins none;
  for (std::int32_t slot = 0; slot < options_.pinned_tokens; ++slot) none.free.push_back(slot);
  pins_.assign(static_cast<std::size_t>(options_.sets), none);
}

std::vector<SlotCopy> Residency::pin(int set, std::span<const SlotRange> ranges) {
  Pins& pins = pins_[set];
  std::int64_t count = 0;
  for (const SlotRange& r : ranges) count += r.end - r.begin;
  if (count > options_.pinned_tokens) {
    throw runtime_error("{} pinned tokens of KV set {}, the device has {} slots for them", count,
                        set, options_.pinned_tokens);
  }
  std::vector<Pin> next;
  auto old = pins.tokens.begin();
  const auto release_before = [&](std::int32_t token) {
    for (; old != pins.tokens.end() && old->token < token; ++old) {
      pins.free.push_back(adopt(set, old->token, old->slot).value_or(old->slot));
    }
  };
  for (const SlotRange& r : ranges) {
    for (std::int32_t token = r.begin; token < r.end; ++token) {
      release_before(token);
      const bool stays = old != pins.tokens.end() && old->token == token;
      next.push_back(stays ? *old++ : Pin{token, -1});
    }
  }
  release_before(std::numeric_limits<std::int32_t>::max());
  std::sort(pins.free.begin(), pins.free.end());
  std::vector<SlotCopy> out;
  auto free = pins.free.begin();
  for (Pin& p : next) {
    if (p.slot >= 0) continue;
    p.slot = *free++;
    add_copy(out, {set, p.token, p.slot, 1});
  }
  pins.free.erase(pins.free.begin(), free);
  pins.tokens = std::move(next);
  return out;
}

Residency::Wanted Residency::unpinned(std::span<const std::vector<std::int32_t>> lists, int set,
                                      std::int32_t tokens) const {
  const auto check_on_host = [&](std::int32_t token) {
    if (token >= options_.first && token < tokens) return;
    throw runtime_error(
        "found slot {} of KV set {}, expected pinned slots or those from {} to {}, which are on "
        "the host",
        token, set, options_.first, tokens - 1);
  };
  std::int32_t end = 0;
  for (const std::vector<std::int32_t>& list : lists) {
    if (list.empty()) continue;
    if (!ascends(list)) {
      const auto at = std::adjacent_find(list.begin(), list.end(), std::greater_equal<>());
      throw runtime_error("found slot {} after {} of KV set {}, expected ascending slots", at[1],
                          at[0], set);
    }
    if (list.front() < 0) check_on_host(list.front());
    end = std::max(end, list.back() + 1);
  }
  const std::vector<Pin>& pins = pins_[set].tokens;
  Wanted out{.set = set, .ranks = {}, .tokens = {}, .slots = {}};
  if (lists.size() == 1) {
    out.tokens.reserve(lists.front().size());
    auto pin = pins.begin();
    for (const std::int32_t token : lists.front()) {
      while (pin != pins.end() && pin->token < token) ++pin;
      if (pin == pins.end() || pin->token != token) out.tokens.push_back(token);
    }
  } else {
    SlotSet chosen(end);
    for (const std::vector<std::int32_t>& list : lists) chosen.add(list);
    for (const Pin& pin : pins) {
      if (pin.token < end) chosen.remove(pin.token);
    }
    out.ranks = RankedSlots(std::move(chosen));
    out.tokens = out.ranks->ascending();
  }
  if (!out.tokens.empty()) {
    check_on_host(out.tokens.front());
    check_on_host(out.tokens.back());
  }
  out.slots.reserve(out.tokens.size());
  return out;
}

Residency::Step Residency::step(std::span<const std::vector<std::int32_t>> lists,
                                std::span<const std::int32_t> tokens, const ForEach& for_each) {
  const auto sets = static_cast<std::size_t>(options_.sets),
             per_set = static_cast<std::size_t>(options_.lists_per_set);
  if (lists.size() != sets * per_set || tokens.size() != sets) {
    throw runtime_error("found {} lists and sizes of {} KV sets, expected {} and {}", lists.size(),
                        tokens.size(), sets * per_set, sets);
  }
  const std::size_t lists_each = options_.per_list ? 1 : per_set;  // lists that share device slots
  std::size_t selected = 0;
  for (const auto& list : lists) selected += list.size();
  const ForEach in_order = for_each_in_order;
  const ForEach& divide = selected >= kWorthDividing ? for_each : in_order;
  std::vector<Wanted> wanted(lists.size() / lists_each);
  divide(wanted.size(), [&](std::size_t i) {
    const std::size_t set = i * lists_each / per_set;
    wanted[i] =
        unpinned(lists.subspan(i * lists_each, lists_each), static_cast<int>(set), tokens[set]);
  });
  Step out;
  out.slots.resize(lists.size());
  place(
      wanted, tokens, divide,
      [&](std::size_t i) {
        for (std::size_t l = i * lists_each; l < (i + 1) * lists_each; ++l)
          out.slots[l] = device_slots_of(lists[l], wanted[i]);
      },
      out);
  return out;
}

std::vector<std::int32_t> Residency::device_slots_of(std::span<const std::int32_t> list,
                                                     const Wanted& w) const {
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  const auto& pins = pins_[w.set].tokens;
  auto pin = pins.begin();
  std::size_t next = 0;  // of the unpinned tokens of a single list
  for (const std::int32_t token : list) {
    while (pin != pins.end() && pin->token < token) ++pin;
    const bool is_pinned = pin != pins.end() && pin->token == token;
    out.push_back(is_pinned ? pin->slot : w.slots[w.ranks ? w.ranks->rank(token) : next++]);
  }
  return out;
}

void Residency::truncate(std::span<const std::int32_t> tokens) {
  if (tokens.size() != pins_.size()) {
    throw runtime_error("found the sizes of {} KV sets, expected {}", tokens.size(), pins_.size());
  }
  for (std::size_t s = 0; s < pins_.size(); ++s) {
    Pins& pins = pins_[s];
    while (!pins.tokens.empty() && pins.tokens.back().token >= tokens[s]) {
      pins.free.push_back(pins.tokens.back().slot);
      pins.tokens.pop_back();
    }
    std::sort(pins.free.begin(), pins.free.end());
  }
  truncate_blocks(tokens);
}

void Residency::clear() {
  truncate(std::vector<std::int32_t>(pins_.size(), 0));
}

}  // namespace turnbench
