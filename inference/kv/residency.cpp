#include "inference/kv/residency.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "common/error.h"
#include "inference/kv/cache_rules.h"

namespace turnbench {
namespace {

constexpr std::size_t kWorthDividing = 16384;  // selected tokens, of all lists

/// Called in every decode step: the loop has no early exit, so that it is vectorised.
bool ascends(std::span<const std::int32_t> slots) {
  int wrong = 0;
  for (std::size_t i = 1; i < slots.size(); ++i) wrong |= slots[i - 1] >= slots[i] ? 1 : 0;
  return wrong == 0;
}

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
      return make_inserted_blocks(options);
    case Rule::kDemandLru:
      return make_demanded_blocks(options);
    case Rule::kPrevious:
      break;
  }
  return make_previous_blocks(options);
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

}  // namespace turnbench
