#include "inference/policy/policy_checks.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

/// Whether values ascend strictly and are in [0, end).  Called in every decode step: the loop has
/// no early exit, so that it is vectorised.
bool ascends(std::span<const std::int32_t> values, std::int32_t end) {
  int wrong = 0;
  for (std::size_t i = 1; i < values.size(); ++i) wrong |= values[i - 1] >= values[i] ? 1 : 0;
  return values.empty() || (wrong == 0 && values.front() >= 0 && values.back() < end);
}

/// Refuses other values.  what: name of the values; where(): the place, computed only on failure.
template <typename Where>
void check_ascending(std::span<const std::int32_t> values, std::int32_t end, const char* what,
                     const Where& where) {
  if (ascends(values, end)) return;
  std::int32_t last = -1;
  for (std::int32_t x : values) {
    if (x <= last || x >= end) {
      throw runtime_error("{}: found {} {}{}, expected ascending {}s from 0 to {}", where(), what,
                          x, last < 0 ? "" : fmt::format(" after {}", last), what, end - 1);
    }
    last = x;
  }
}

template <typename Where>
void check_pattern(const HeadPattern& p, const PatternPass& pass, const Where& where) {
  const std::int32_t end = pass.first_position + pass.rows;
  switch (p.kind) {
    case HeadPattern::Kind::kDense:
      return;
    case HeadPattern::Kind::kBand:
      if (p.sinks < 0 || p.local < 0 || p.dense_rows < 0) {
        throw runtime_error(
            "{}: found a band of {} sinks, {} local keys and {} dense rows, expected none below 0",
            where(), p.sinks, p.local, p.dense_rows);
      }
      return;
    case HeadPattern::Kind::kVerticalSlash:
      check_ascending(p.columns, end, "column", where);
      check_ascending(p.offsets, end, "offset", where);
      return;
    case HeadPattern::Kind::kBlocks: {
      if (p.block_size < 1 || p.block_rows < kPatternBlock || p.block_rows % kPatternBlock != 0) {
        throw runtime_error(
            "{}: found blocks of {} keys and {} rows, expected at least 1 key and a multiple of {} "
            "rows",
            where(), p.block_size, p.block_rows, kPatternBlock);
      }
      const auto lists = static_cast<std::size_t>((pass.rows + p.block_rows - 1) / p.block_rows);
      if (p.blocks.size() != lists) {
        throw runtime_error("{}: found {} lists of key blocks, expected {} for {} rows", where(),
                            p.blocks.size(), lists, pass.rows);
      }
      const std::int32_t blocks =
          BlockGrid(p.block_size, pass.first_position).block_of(end - 1) + 1;
      for (std::size_t i = 0; i < lists; ++i) {
        check_ascending(p.blocks[i], blocks, "key block",
                        [&] { return fmt::format("{}, list {}", where(), i); });
      }
      return;
    }
  }
}

}  // namespace

void check_cache_rule(const SelectionPolicy& selection, Residency::Rule rule,
                      const std::string& method) {
  if (capability<KeyRebuilder>(&selection) == nullptr || rule == Residency::Rule::kPrevious) return;
  throw input_error(
      "{}: found a cache_rule other than previous, expected cache_rule=previous, which keeps the "
      "computed keys for the next step",
      method);
}

void check_eviction(const Policies& policies, bool evicts_in_answers) {
  if (!policies.selection || !policies.eviction) return;
  if (policies.has_scoring_passes()) {
    throw input_error(
        "{}: found a selection with an eviction that scores tokens by passes after the prompt, "
        "expected one of the two",
        policies.method);
  }
  if (policies.traits().needs_equal_sets && policies.eviction->keeps_unequal_sets()) {
    throw input_error(
        "{}: found an eviction whose heads keep unequal numbers of tokens, expected equally many "
        "in all KV sets of a layer, which the selection needs",
        policies.method);
  }
  if (policies.traits().needs_whole_answers && policies.eviction->evicts_in_answers() &&
      evicts_in_answers) {
    throw input_error(
        "{}: found an eviction while decoding, expected none, or history compress_once: the "
        "selection needs whole answers",
        policies.method);
  }
}

void check_traits(const Policies& policies) {
  const SelectionTraits traits = policies.traits();
  const int window = std::min(traits.window, policies.eviction ? policies.eviction->window() : 0);
  if (window < 0)
    throw runtime_error("{}: window: found {}, expected at least 0", policies.method, window);
  if (traits.max_distance > 0 && !traits.pre_rope_keys) {
    throw runtime_error(
        "{}: traits: found max_distance without pre_rope_keys, expected both: distances are "
        "clamped in scores of keys before RoPE",
        policies.method);
  }
}

void check_pinned(std::span<const SlotRange> pinned, int set, std::int32_t tokens) {
  std::int32_t end = 0;
  for (const SlotRange& r : pinned) {
    if (r.begin < end || r.end < r.begin) {
      throw runtime_error("found pinned slots {} to {} of KV set {}, expected them from {} on",
                          r.begin, r.end, set, end);
    }
    end = r.end;
  }
  if (end != tokens) {
    throw runtime_error(
        "found pinned slots of KV set {} up to {}, expected them to end with the newest token, "
        "slot {}",
        set, pinned.empty() ? "none" : std::to_string(end - 1), tokens - 1);
  }
}

void check_codec(const Policies& policies) {
  if (!policies.codec) return;
  if (capability<KeyRebuilder>(policies.selection.get()) != nullptr) {
    throw input_error(
        "{}: found a codec of the cache with a selection that rebuilds keys, expected no codec: "
        "rebuilt keys are not encoded",
        policies.method);
  }
  if (policies.group_codec() == nullptr) return;
  const auto refuse = [&](const char* with, const char* expected, const char* because) {
    throw input_error("{}: found a codec that encodes rows after a prompt with {}, expected {}: {}",
                      policies.method, with, expected, because);
  };
  if (policies.placement.host)
    refuse("placement=host", "placement=device", "transfers copy encoded rows only");
  if (policies.evict_in_answers()) {
    refuse("an eviction in decode steps", "an eviction at the end of prompts",
           "each step would encode all rows again");
  }
  if (policies.prefill && policies.prefill->recomputes_answer()) {
    refuse("a prefill that computes answers again", "one that does not (recompute_answer=false)",
           "encoded rows cannot be removed");
  }
}

void check_codec_memory(const Policies& policies, bool is_gpu) {
  if (!policies.codec || !is_gpu) return;
  throw input_error(
      "{}: found a codec of the cache on a GPU, expected the CPU backend: rows are encoded and "
      "decoded by the host",
      policies.method);
}

std::string PolicyCheck::where(const char* decides) const {
  return fmt::format("{}: {} at layer {}", method.empty() ? "policy" : method, decides, layer);
}

void PolicyCheck::lists(const std::vector<std::vector<std::int32_t>>& lists,
                        std::span<const KvHeadCache> sets, const char* decides) const {
  if (lists.size() != sets.size() && lists.size() != static_cast<std::size_t>(heads)) {
    throw runtime_error(
        "{}: found {} lists of slots, expected one for each of {} sets or of {} query heads",
        where(decides), lists.size(), sets.size(), heads);
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    check_ascending(lists[i], sets[i * sets.size() / lists.size()].size(), "slot",
                    [&] { return fmt::format("{}, list {}", where(decides), i); });
  }
}

void PolicyCheck::keep(const KeepSets& kept, std::span<const KvHeadCache> sets,
                       bool may_be_unequal) const {
  if (kept.keep_all()) return;
  lists(kept.slots, sets, "eviction");
  if (may_be_unequal) return;
  for (const auto& list : kept.slots) {
    if (list.size() == kept.slots.front().size()) continue;
    throw runtime_error(
        "{}: found sets of {} and {} tokens, expected equally many, as keeps_unequal_sets declares",
        where("eviction"), kept.slots.front().size(), list.size());
  }
}

void PolicyCheck::selection(const Selection& selection, const SelectionPolicy& policy,
                            std::span<const KvHeadCache> sets,
                            std::optional<std::int32_t> end) const {
  const MatrixView<const float>& vectors = selection.blend.vectors;
  if (selection.blend.weights != nullptr &&
      (vectors.data == nullptr || vectors.rows != std::ssize(sets) ||
       vectors.columns != sets.front().layout().head_dim)) {
    throw runtime_error("{}: found {} vectors of {} elements to blend with, expected {} of {}",
                        where("selection"), vectors.data == nullptr ? 0 : vectors.rows,
                        vectors.columns, sets.size(), sets.front().layout().head_dim);
  }
  if (!selection.all()) lists(selection.slots, sets, "selection");
  for (std::size_t i = 0; i < selection.slots.size(); ++i) {
    const auto& list = selection.slots[i];
    const int current = end.value_or(sets[i * sets.size() / selection.slots.size()].size()) - 1;
    if (!list.empty() && list.back() == current) continue;
    throw runtime_error("{}, list {}: found {} last, expected the current token's slot {}",
                        where("selection"), i,
                        list.empty() ? "no slot" : fmt::format("slot {}", list.back()), current);
  }
  if (policy.traits().reads_pinned_only) reads_pinned(selection, policy, sets, end);
}

void PolicyCheck::reads_pinned(const Selection& selection, const SelectionPolicy& policy,
                               std::span<const KvHeadCache> sets,
                               std::optional<std::int32_t> end) const {
  constexpr const char* kDeclared = "as reads_pinned_only declares";
  const std::size_t lists = selection.all() ? sets.size() : selection.slots.size();
  std::vector<SlotRange> pinned;  // of the list's set
  std::int64_t size = 0;          // their tokens
  for (std::size_t i = 0, known = sets.size(); i < lists; ++i) {
    const std::size_t set = i * sets.size() / lists;
    const int tokens = end.value_or(sets[set].size());
    if (set != std::exchange(known, set)) {
      pinned = policy.pinned(layer, static_cast<int>(set), tokens);
      size = 0;
      for (const SlotRange& range : pinned) size += range.end - range.begin;
    }
    if (selection.all()) {
      if (size == tokens) continue;
      throw runtime_error("{}: found all {} slots of KV set {}, expected the {} pinned ones, {}",
                          where("selection"), tokens, set, size, kDeclared);
    }
    const std::vector<std::int32_t>& list = selection.slots[i];  // ascends
    std::int64_t read = 0;
    auto outside = list.begin();  // the first slot that is not pinned
    for (const SlotRange& range : pinned) {
      const auto begin = std::lower_bound(list.begin(), list.end(), range.begin),
                 behind = std::lower_bound(begin, list.end(), range.end);
      if (outside == begin) outside = behind;
      read += behind - begin;
    }
    if (read < std::ssize(list)) {
      throw runtime_error("{}, list {}: found slot {}, expected pinned ones, {}",
                          where("selection"), i, *outside, kDeclared);
    }
    if (read == size) continue;
    throw runtime_error("{}, list {}: found {} slots, expected all {} pinned ones, {}",
                        where("selection"), i, read, size, kDeclared);
  }
}

void PolicyCheck::patterns(const std::vector<HeadPattern>& patterns,
                           const PatternPass& pass) const {
  if (patterns.empty()) return;
  if (patterns.size() != static_cast<std::size_t>(heads)) {
    throw runtime_error("{}: found {} patterns, expected one for each of {} query heads",
                        where("prefill"), patterns.size(), heads);
  }
  for (std::size_t h = 0; h < patterns.size(); ++h) {
    check_pattern(patterns[h], pass,
                  [&] { return fmt::format("{}, head {}", where("prefill"), h); });
  }
}

void PolicyCheck::shifted(std::span<const KvHeadCache> sets, int tokens) const {
  for (const KvHeadCache& set : sets) {
    if (set.size() == tokens) continue;
    throw runtime_error(
        "{}: found a set of {} tokens, expected {} as in every other set of every layer, because "
        "positions shift",
        where("eviction"), set.size(), tokens);
  }
}

}  // namespace turnbench
