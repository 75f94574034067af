#include "harness/experiment/plan_prefills.h"

#include <algorithm>
#include <set>
#include <string>

#include "harness/experiment/planned_turn.h"

namespace turnbench {
namespace {

double attention_flops(const ModelConfig& c, double pairs) {
  return 4.0 * c.layers * c.heads * c.head_dim * pairs;
}

/// Adds the prefills of turn `t`.  `offset`: index of its first cell in the planned unit.
void add_turn(const PlannedTurn& turn, const PromptLengths& lengths, std::size_t t,
              std::size_t offset, std::vector<PlannedPrefill>& out) {
  const std::int64_t before = t > 0 ? lengths.prompts[t - 1] : 0, prompt = lengths.prompts[t],
                     dense_history = before + lengths.earlier_answers[t],
                     question_before = t > 0 ? lengths.questions[t - 1] : 0;
  const auto use = [&](PlannedPrefill& planned, std::size_t cell) {
    if (turn.is_recorded(cell)) planned.cells.push_back(offset + cell);
  };
  for (const auto& [pre_rope_keys, first] : turn.sharing.dense_histories) {
    PlannedPrefill& history = out.emplace_back(PlannedPrefill{0, dense_history, {}});
    for (const TurnPrefill& prefill : turn.sharing.prefills) {
      const Policies& policies = turn.cells[prefill.first].method->policies();
      if (prefill.start == TurnStart::kDenseHistory && policies.pre_rope_keys() == pre_rope_keys)
        use(history, prefill.first);
    }
  }
  for (const TurnPrefill& prefill : turn.sharing.prefills) {
    const bool restarts = prefill.start == TurnStart::kRestart ||
                          (prefill.start == TurnStart::kFork && !prefill.reuses_cached_prompt);
    // A prefill up to the question also computes the previous turn's question, before which the
    // previous prefill of this kind ended.
    const bool repeats = prefill.start == TurnStart::kFork && prefill.to_question && !restarts;
    const std::int64_t first = prefill.whole ? prompt - lengths.questions[t]
                               : restarts    ? 0
                               : prefill.start == TurnStart::kDenseHistory ? dense_history
                                                                           : before;
    PlannedPrefill& planned =
        out.emplace_back(PlannedPrefill{first - (repeats ? question_before : 0), prompt, {}});
    std::set<std::string> scorings;  // by key
    for (const std::size_t cell : prefill.cells) {
      use(planned, cell);
      const auto& eviction = turn.cells[cell].method->policies().eviction;
      const auto scoring = eviction ? eviction->scoring_passes(static_cast<int>(prompt)) : nullptr;
      if (scoring != nullptr && scorings.insert(scoring->key()).second)
        planned.scoring_rows += scoring->tokens_of_passes(static_cast<int>(prompt));
    }
    const UnitCell& cell = turn.cells[prefill.first];
    planned.block = block_of(cell, t);
    if (planned.block > 0) planned.kept = kept_tokens(*cell.method, prompt);
  }
}

void add_unit(const Unit& unit, const PromptLengths& lengths, bool isolated,
              std::optional<Along> fidelity, std::size_t offset, std::vector<PlannedPrefill>& out) {
  for (std::size_t t = 0; t < lengths.prompts.size(); ++t) {
    add_turn(plan_turn(unit, t, HistoryAnswers::kAgree, isolated, fidelity), lengths, t, offset,
             out);
  }
}

}  // namespace

PlannedPrefill::Scoring PlannedPrefill::scoring() const {
  Scoring out;
  for (const Block& own : blocks()) {
    out.rows += scoring_rows;
    out.pairs += static_cast<double>(scoring_rows) * static_cast<double>(own.before + own.rows);
  }
  return out;
}

double PlannedPrefill::flops(const ModelConfig& config) const {
  double pairs = 0;
  for (const Block& own : blocks()) {
    const auto rows = static_cast<double>(own.rows);
    pairs += rows * (static_cast<double>(own.before) + rows / 2);
  }
  const Scoring scored = scoring();
  return config.linear_flops_per_token() * static_cast<double>(tokens() + scored.rows) +
         attention_flops(config, pairs + scored.pairs);
}

std::vector<PlannedPrefill::Block> PlannedPrefill::blocks() const {
  if (block == 0) return {{begin, end - begin}};
  std::vector<Block> out;
  std::int64_t before = std::min(begin, kept);
  for (std::int64_t first = begin; first < end; first += block) {
    const Block& own = out.emplace_back(Block{before, std::min(block, end - first)});
    before = std::min(before + own.rows, kept);
  }
  return out;
}

std::vector<PlannedPrefill> planned_prefills(const Unit& unit, const PromptLengths& lengths,
                                             bool isolated, std::optional<Along> fidelity) {
  std::vector<PlannedPrefill> out;
  if (!isolated) {
    add_unit(unit, lengths, isolated, fidelity, 0, out);
    return out;
  }
  const std::vector<Unit> parts = unit.split();
  for (std::size_t i = 0; i < parts.size(); ++i)
    add_unit(parts[i], lengths, isolated, fidelity, i, out);
  return out;
}

std::int64_t probe_prefills(const std::vector<ProbeCell>& cells, bool own_answers) {
  if (required_input(cells) == ProbeInfo::Input::kText && !own_answers) return 0;
  std::int64_t out = 1;
  for (const auto& [canonical, method] : methods_beside(cells))
    out += divides_prompts(*method) ? 2 : 1;
  return out;
}

double prefill_flops(const ModelConfig& c, std::int64_t prompt) {
  const double n = static_cast<double>(prompt);
  return c.linear_flops_per_token() * n + attention_flops(c, n * n / 2);
}

}  // namespace turnbench
