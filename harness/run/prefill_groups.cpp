#include "harness/run/prefill_groups.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>

namespace turnbench {
namespace {

/// Only the rows of this turn contribute to scores and counters.
void forget_earlier_rows(Sequence& s) {
  s.counters = {};
  for (LayerState& layer : s.layers) layer.tail.clear();
}

/// The part of the prompt that a prefill computes, and the ends of its parts of earlier turns.
std::span<const int> prompt_part(const Branch& b, const TurnPrefill& planned) {
  const std::span<const int> all = b.prompt.tokens;
  return planned.to_question ? all.first(b.question_begin) : all;
}
const std::vector<std::size_t>& earlier_ends(const Branch& b, const TurnPrefill& planned) {
  return planned.to_question ? b.earlier_question_begins : b.earlier_prompt_lengths;
}

/// A sequence with the previous turn's prompt of this branch, and the tokens that remain to be
/// prefilled.  (A longer prompt of another branch would divide a sparse prefill at another place.)
std::pair<Sequence, std::vector<int>> start_prefix(Engine& engine, const ActiveUnit& unit,
                                                   const Branch& b, const TurnPrefill& planned) {
  const std::span<const int> prompt = prompt_part(b, planned);
  Policies policies;
  if (planned.key != kDensePrefill) policies = b.cell->method->policies().prefill_part();
  policies.method = b.cell->method->name();
  if (unit.turn > 0 && planned.reuses_cached_prompt) {
    const auto fresh =
        prompt.begin() + static_cast<std::ptrdiff_t>(earlier_ends(b, planned).back());
    Sequence next = unit.prefixes.at({planned.key, {prompt.begin(), fresh}}).fork();
    next.counters = {};
    return {std::move(next), std::vector<int>(fresh, prompt.end())};
  }
  const TurnSharing& sharing = unit.sharing;
  return {engine.make_sequence(std::move(policies), sharing.window, sharing.pre_rope_keys),
          std::vector<int>(prompt.begin(), prompt.end())};
}

/// Prepares a branch that prefills its whole dialogue again; returns the tokens to prefill.  In a
/// restart by turns, the rows of each earlier turn are computed with the patterns of that turn.
/// Counters include only the current turn's rows, but all transfers.
std::vector<int> restart_sequence(Engine& engine, ActiveUnit& unit, Branch& b,
                                  const TurnPrefill& planned) {
  Sequence& s = *b.sequence;
  const std::span<const int> prompt = prompt_part(b, planned);
  std::size_t done = 0;
  if (b.reprefills() && planned.restarts_by_turns()) {
    if (s.policies.prefill) {
      s.policies.prefill =
          std::make_unique<MemoizedPrefillPolicy>(std::move(s.policies.prefill), b.plans);
    }
    for (std::size_t end : earlier_ends(b, planned)) {
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
std::vector<int> continue_sequence(Branch& b, const TurnPrefill& planned) {
  if (b.before_answer) b.sequence = std::move(*b.before_answer);
  b.before_answer.reset();
  Sequence& s = *b.sequence;
  s.counters = {};
  if (s.policies.prefill && s.policies.prefill->recomputes_answer() && !s.policies.eviction)
    s.truncate(s.prompt_tokens);
  if (s.policies.eviction) {  // only this turn's rows contribute to scores
    for (LayerState& layer : s.layers) layer.tail.clear();
  }
  const std::span<const int> prompt = prompt_part(b, planned);
  return {prompt.begin() + static_cast<std::ptrdiff_t>(s.tokens.size()), prompt.end()};
}

/// Prepares a branch that continues the dense history; returns the tokens to prefill.
std::vector<int> follow_dense_history(const ActiveUnit& unit, Branch& b,
                                      const TurnPrefill& planned) {
  Policies policies = b.cell->method->make();
  const Sequence& history = unit.dense_histories.at(policies.pre_rope_keys());
  b.sequence = history.fork_as(std::move(policies));
  const std::span<const int> prompt = prompt_part(b, planned);
  return {prompt.begin() + static_cast<std::ptrdiff_t>(b.history_tokens), prompt.end()};
}

void add_own_prefill(Engine& engine, ActiveUnit& unit, const TurnPrefill& planned,
                     std::vector<Prefill>& work) {
  Branch& b = unit.branches[planned.first];
  Prefill& own = work.emplace_back();
  own.unit = &unit;
  own.forks.push_back(&b);
  own.to_question = planned.to_question;
  own.tokens = b.start == TurnStart::kDenseHistory ? follow_dense_history(unit, b, planned)
               : b.start == TurnStart::kContinue   ? continue_sequence(b, planned)
                                                   : restart_sequence(engine, unit, b, planned);
  own.pass.dialogue = planned.to_question ? &b.view_before_question : &b.view;
  own.pass.sequence = &*b.sequence;
  own.pass.evict = b.evicts(unit.turn);
}

/// A prefill up to the question, and the one of the whole prompt with which it shares rows.
struct SharedRows {
  Prefill *part, *whole;
  std::ptrdiff_t lead;  ///< rows of the part before the first one of the whole prompt's prefill
  std::ptrdiff_t rows;  ///< shared ones behind them

  SharedRows(Prefill& a, Prefill& b)
      : part(&a),
        whole(&b),
        lead(std::ssize(b.pass.sequence->tokens) - std::ssize(a.pass.sequence->tokens)),
        rows(std::ssize(a.tokens) - lead - 1) {}
};

/// A pass over the first `rows` tokens that remain to be prefilled.
Pass first_rows(const Prefill& prefill, std::ptrdiff_t rows) {
  Pass out = prefill.pass;
  out.tokens = std::span(prefill.tokens).first(static_cast<std::size_t>(rows));
  return out;
}

void erase_rows(Prefill& prefill, std::ptrdiff_t rows) {
  prefill.tokens.erase(prefill.tokens.begin(), prefill.tokens.begin() + rows);
}

/// Copies sums over more rows than those of `to`.  Both sequences have the same tokens, but each
/// has counted only the rules of its own forks in rows that the other has computed, too.
void complete_columns(const Sequence& from, Sequence& to) {
  for (std::size_t layer = 0; layer < from.layers.size(); ++layer) {
    const ColumnMasses& columns = from.layers[layer].columns;
    ColumnMasses& out = to.layers[layer].columns;
    for (const auto& [rule, mass] : columns.by_rule) {
      const auto own = out.by_rule.find(rule);
      if (own == out.by_rule.end() || mass.rows > own->second.rows) out.by_rule[rule] = mass;
    }
    for (const auto& [first, moments] : columns.moments) {
      const auto own = out.moments.find(first);
      if (own == out.moments.end() || moments.rows() > own->second.rows())
        out.moments[first] = moments;
    }
  }
}

}  // namespace

TurnSharing share_turn(const ActiveUnit& unit, const Decoding& decoding) {
  std::map<std::vector<int>, std::size_t> prompts;
  std::vector<TurnCell> cells;
  for (const Branch& b : unit.branches) {
    const std::size_t prompt = prompts.try_emplace(b.prompt.tokens, prompts.size()).first->second;
    cells.push_back(turn_cell(*b.cell, b.start, prompt, cells.size(), unit.sharing));
  }
  return share_turn(cells, decoding.fidelity.has_value());
}

void prefill_dense_histories(Engine& engine, const Decoding& decoding, ActiveUnit& unit) {
  for (const auto& [pre_rope_keys, first] : unit.sharing.dense_histories) {
    const Branch& b = unit.branches[first];
    Policies policies;
    if (decoding.isolated) policies.placement = b.cell->method->policies().placement;
    Sequence history =
        engine.make_sequence(std::move(policies), unit.sharing.window, pre_rope_keys);
    const Pass pass{.sequence = &history,
                    .tokens = std::span(b.prompt.tokens).first(b.history_tokens),
                    .dialogue = &b.view};
    engine.prefill({&pass, 1});
    unit.result.prefilled_tokens += std::ssize(pass.tokens);
    forget_earlier_rows(history);
    unit.dense_histories.emplace(pre_rope_keys, std::move(history));
  }
}

std::map<PrefixKey, Sequence> add_prefills(Engine& engine, ActiveUnit& unit,
                                           std::vector<Prefill>& work) {
  std::map<PrefixKey, Sequence> prefixes;
  for (Branch& b : unit.branches) {
    if (b.decoder != nullptr) {
      b.sequence.reset();
    } else if (b.start == TurnStart::kFork || b.start == TurnStart::kRestart) {
      b.sequence = engine.make_sequence(b.cell->method->make());
    }
  }
  const std::size_t first_of_unit = work.size();
  for (const TurnPrefill& planned : unit.sharing.prefills) {
    if (planned.start != TurnStart::kFork) {
      add_own_prefill(engine, unit, planned, work);
      continue;
    }
    const Branch& first = unit.branches[planned.first];
    auto [prefix, rest] = start_prefix(engine, unit, first, planned);
    const std::span<const int> part = prompt_part(first, planned);
    const PrefixKey key(planned.key, {part.begin(), part.end()});
    const auto at = prefixes.emplace(key, std::move(prefix)).first;
    Prefill& shared = work.emplace_back();
    shared.unit = &unit;
    shared.tokens = std::move(rest);
    shared.to_question = planned.to_question;
    if (planned.whole) shared.whole = first_of_unit + *planned.whole;
    shared.pass.dialogue = planned.to_question ? &first.view_before_question : &first.view;
    shared.pass.sequence = &at->second;
    shared.is_full = planned.is_full;
    for (const std::size_t cell : planned.cells) {
      Branch& b = unit.branches[cell];
      if (b.decoder != nullptr) continue;
      shared.forks.push_back(&b);
      shared.pass.forks.push_back(&*b.sequence);
    }
  }
  return prefixes;
}

void prefill_shared_rows(Engine& engine, std::span<Prefill> work) {
  std::vector<SharedRows> sharing;
  std::vector<Pass> leads, shared;
  for (Prefill& part : work) {
    if (!part.whole) continue;
    const SharedRows both(part, work[*part.whole]);
    if (both.rows < 1) continue;
    sharing.push_back(both);
    if (both.lead > 0) leads.push_back(first_rows(part, both.lead));
  }
  engine.prefill(leads);
  for (const auto& [part, whole, lead, rows] : sharing) {
    erase_rows(*part, lead);
    complete_columns(*part->pass.sequence, *whole->pass.sequence);
    Pass& pass = shared.emplace_back(first_rows(*part, rows));
    pass.sequence = whole->pass.sequence;
    pass.forks.insert(pass.forks.end(), whole->pass.forks.begin(), whole->pass.forks.end());
  }
  engine.prefill(shared);
  for (const auto& [part, whole, lead, rows] : sharing) {
    part->unit->result.prefilled_tokens += lead + rows;
    const Counters before = std::move(part->pass.sequence->counters);
    *part->pass.sequence = whole->pass.sequence->fork();
    Counters& counters = part->pass.sequence->counters;
    counters.prefill_pairs += before.prefill_pairs;
    counters.prefill_pairs_dense += before.prefill_pairs_dense;
    counters.policy_seconds += before.policy_seconds;
    erase_rows(*part, rows);
    erase_rows(*whole, rows);
  }
}

void prefill_blocks(Engine& engine, std::span<Prefill> work) {
  struct Block {
    Prefill& prefill;
    DialogueView view;
    std::vector<Span> spans = {};  // of the prompt up to the block's end
  };
  while (true) {
    std::deque<Block> blocks;  // passes point to their views
    std::vector<Pass> passes;
    for (Prefill& prefill : work) {
      const Sequence& sequence = *prefill.pass.sequence;
      const int size = sequence.policies.compress_block;
      if (size == 0 || !prefill.pass.evict || std::ssize(prefill.tokens) <= size) continue;
      Block& block = blocks.emplace_back(Block{prefill, *prefill.pass.dialogue});
      const auto end = static_cast<std::int32_t>(std::ssize(sequence.tokens) + size);
      for (Span span : block.view.spans) {
        span.end = std::min(span.end, end);
        if (span.begin < span.end) block.spans.push_back(span);
      }
      block.view.spans = block.spans;
      Pass& pass = passes.emplace_back(first_rows(prefill, size));
      pass.dialogue = &block.view;
      pass.prompt_end = true;
    }
    if (passes.empty()) return;
    engine.prefill(passes);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const std::int64_t rows = std::ssize(passes[i].tokens);
      blocks[i].prefill.unit->result.prefilled_tokens += rows;
      erase_rows(blocks[i].prefill, rows);
    }
  }
}

void prefill_questions(Engine& engine, std::span<const Prefill> work) {
  std::vector<Branch*> branches;
  std::vector<Pass> passes;
  for (const Prefill& prefill : work) {
    if (!prefill.to_question) continue;
    for (Branch* b : prefill.forks) {
      const std::span<const int> rest = std::span(b->prompt.tokens).subspan(b->question_begin);
      if (rest.empty()) continue;
      branches.push_back(b);
      passes.push_back({.sequence = &*b->sequence,
                        .tokens = rest,
                        .dialogue = &b->view,
                        .prompt_end = true,
                        .evict = false});
      prefill.unit->result.prefilled_tokens += std::ssize(rest);
    }
  }
  if (passes.empty()) return;
  std::vector<std::vector<float>> logits = engine.prefill(passes);
  for (std::size_t i = 0; i < branches.size(); ++i) branches[i]->logits = std::move(logits[i]);
}

}  // namespace turnbench
