#include "harness/run/prefill_groups.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace turnbench {
namespace {

/// The number of query rows that a shared sequence must keep for the branches of all cells.
int shared_window(const ActiveUnit& unit) {
  int out = 0;
  for (const UnitCell& cell : unit.unit.cells)
    out = std::max(out, cell.method->policies().window());
  return out;
}

/// Only the rows of this turn contribute to scores and counters.
void forget_earlier_rows(Sequence& s) {
  s.counters = {};
  for (LayerState& layer : s.layers) layer.tail.clear();
}

/// A sequence with the previous turn's prompt of this branch, and the tokens that remain to be
/// prefilled.  (A longer prompt of another branch would divide a sparse prefill at another place.)
std::pair<Sequence, std::vector<int>> start_prefix(Engine& engine, const ActiveUnit& unit,
                                                   const Branch& b, const PrefixKey& key) {
  const auto& [prefill_key, prompt] = key;
  Policies policies;
  if (prefill_key != kDensePrefill) policies = b.cell->method->policies().prefill_part();
  policies.method = b.cell->method->name();
  if (unit.turn > 0 && policies.reuses_cached_prompt()) {
    const auto fresh =
        prompt.begin() + static_cast<std::ptrdiff_t>(b.earlier_prompt_lengths.back());
    Sequence next = unit.prefixes.at({prefill_key, {prompt.begin(), fresh}}).fork();
    next.counters = {};
    return {std::move(next), std::vector<int>(fresh, prompt.end())};
  }
  bool pre_rope_keys = false;
  for (const UnitCell& cell : unit.unit.cells)
    pre_rope_keys |= cell.method->policies().pre_rope_keys();
  return {engine.make_sequence(std::move(policies), shared_window(unit), pre_rope_keys), prompt};
}

/// Prepares a branch that prefills its whole dialogue again; returns the tokens to prefill.  If
/// prompts may continue earlier ones, as in a shared prefix, the rows of each earlier turn are
/// computed in a separate pass with the patterns of that turn.  Counters include only the current
/// turn's rows, but all transfers.
std::vector<int> restart_sequence(Engine& engine, ActiveUnit& unit, Branch& b) {
  Sequence& s = *b.sequence;
  const std::span<const int> prompt = b.prompt.tokens;
  std::size_t done = 0;
  if (b.reprefills() && s.policies.has_sparse_prefill() && s.policies.reuses_cached_prompt()) {
    if (s.policies.prefill) {
      s.policies.prefill =
          std::make_unique<MemoizedPrefillPolicy>(std::move(s.policies.prefill), b.plans);
    }
    for (std::size_t end : b.earlier_prompt_lengths) {
      const Pass pass{
          .sequence = &s, .tokens = prompt.subspan(done, end - done), .dialogue = &b.view};
      engine.prefill({&pass, 1});
      unit.result.prefilled_tokens += static_cast<std::int64_t>(end - done);
      done = end;
    }
    Ledger moved = std::move(s.counters.ledger);
    s.counters = {};
    s.counters.ledger = std::move(moved);
  }
  return {prompt.begin() + static_cast<std::ptrdiff_t>(done), prompt.end()};
}

/// Prepares a branch that keeps its cache for the next turn; returns the tokens to prefill.
std::vector<int> continue_sequence(Branch& b) {
  if (b.before_answer) b.sequence = std::move(*b.before_answer);
  b.before_answer.reset();
  Sequence& s = *b.sequence;
  s.counters = {};
  if (s.policies.prefill && s.policies.prefill->recomputes_answer() && !s.policies.eviction)
    s.truncate(s.prompt_tokens);
  if (s.policies.eviction) {  // only this turn's rows contribute to scores
    for (LayerState& layer : s.layers) layer.tail.clear();
  }
  const std::vector<int>& prompt = b.prompt.tokens;
  return {prompt.begin() + static_cast<std::ptrdiff_t>(s.tokens.size()), prompt.end()};
}

/// Prepares a branch that continues the dense history; returns the tokens to prefill.
std::vector<int> follow_dense_history(const ActiveUnit& unit, Branch& b) {
  Policies policies = b.cell->method->make();
  const Sequence& history = unit.dense_histories.at(policies.pre_rope_keys());
  b.sequence = history.fork_as(std::move(policies));
  const std::vector<int>& prompt = b.prompt.tokens;
  return {prompt.begin() + static_cast<std::ptrdiff_t>(b.history_tokens), prompt.end()};
}

void add_own_prefill(Engine& engine, ActiveUnit& unit, Branch& b, std::vector<Prefill>& work) {
  Prefill& own = work.emplace_back();
  own.unit = &unit;
  own.forks.push_back(&b);
  own.tokens = b.follows_dense_history() ? follow_dense_history(unit, b)
               : b.continues()           ? continue_sequence(b)
                                         : restart_sequence(engine, unit, b);
  own.pass.dialogue = &b.view;
  own.pass.sequence = &*b.sequence;
  own.pass.evict = b.evicts(unit.turn);
}

}  // namespace

void prefill_dense_histories(Engine& engine, const Decoding& decoding, ActiveUnit& unit) {
  for (const Branch& b : unit.branches) {
    if (!b.follows_dense_history()) continue;
    const Policies& method = b.cell->method->policies();
    const bool pre_rope_keys = method.pre_rope_keys();
    if (unit.dense_histories.contains(pre_rope_keys)) continue;
    Policies policies;
    if (decoding.isolated) policies.placement = method.placement;
    Sequence history =
        engine.make_sequence(std::move(policies), shared_window(unit), pre_rope_keys);
    const Pass pass{.sequence = &history,
                    .tokens = std::span(b.prompt.tokens).first(b.history_tokens),
                    .dialogue = &b.view};
    engine.prefill({&pass, 1});
    unit.result.prefilled_tokens += std::ssize(pass.tokens);
    forget_earlier_rows(history);
    unit.dense_histories.emplace(pre_rope_keys, std::move(history));
  }
}

std::map<PrefixKey, Sequence> add_prefills(Engine& engine, const Decoding& decoding,
                                           ActiveUnit& unit, std::vector<Prefill>& work) {
  std::map<PrefixKey, Sequence> prefixes;
  std::map<PrefixKey, std::size_t> groups;  // index in `work`
  const auto group_of = [&](Branch& b, const PrefixKey& key) -> Prefill& {
    const auto [group, is_new] = groups.try_emplace(key, work.size());
    if (is_new) {
      auto [prefix, rest] = start_prefix(engine, unit, b, key);
      const auto at = prefixes.emplace(key, std::move(prefix)).first;
      Prefill& shared = work.emplace_back();
      shared.unit = &unit;
      shared.tokens = std::move(rest);
      shared.pass.dialogue = &b.view;
      shared.pass.sequence = &at->second;
    }
    return work[group->second];
  };
  for (Branch& b : unit.branches) {
    if (b.skips(unit.turn)) continue;
    const bool goes_on = b.continues() || b.follows_dense_history();
    if (!goes_on) b.sequence = engine.make_sequence(b.cell->method->make());
    if (goes_on || decoding.isolated) {  // an isolated cell's memory must not be shared
      add_own_prefill(engine, unit, b, work);
    } else {
      Prefill& shared = group_of(b, {b.cell->method->prefill_key(), b.prompt.tokens});
      shared.forks.push_back(&b);
      shared.pass.forks.push_back(&*b.sequence);
    }
    if (decoding.fidelity) group_of(b, {kDensePrefill, b.prompt.tokens}).is_full = true;
  }
  return prefixes;
}

}  // namespace turnbench
