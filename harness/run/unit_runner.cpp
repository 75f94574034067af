#include "harness/run/unit_runner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "common/clock.h"
#include "common/error.h"
#include "harness/run/fidelity.h"
#include "harness/run/prefill_groups.h"
#include "harness/store/packed_ledger.h"

namespace turnbench {
namespace {

constexpr std::size_t kDecodeBatch = 64;  // branches that decode in one forward pass

/// Writes the turn's transfers between host and device.
void write_traffic(const Ledger& ledger, Record& r) {
  const auto add = [&](const char* name, double value) { r.counters.push_back({name, value}); };
  const auto as_double = [](std::int64_t x) { return static_cast<double>(x); };
  const LedgerEntry all = ledger.total();
  add("index_bytes", as_double(all.index_bytes));
  add("index_bits", as_double(all.index_bits));
  add("kv_fetch_bytes", as_double(all.kv_fetch_bytes));
  add("cache_fill_bytes", as_double(all.cache_fill_bytes));
  add("writeback_bytes", as_double(all.writeback_bytes));
  add("cache_evictions", as_double(all.evictions));
  add("cache_hits", as_double(all.hits));
  add("cache_misses", as_double(all.misses));
  if (all.hits + all.misses > 0)
    add("hit_rate", as_double(all.hits) / as_double(all.hits + all.misses));
  if (ledger.steps() > 1) {
    const double steps = static_cast<double>(ledger.steps() - 1);  // without the prefill
    add("step_bytes", as_double(all.bytes() - ledger.total_of_step(0).bytes()) / steps);
  }
}

}  // namespace

bool UnitRunner::is_due() const {
  if (active_.empty()) return true;
  return !decoding_.isolated && active_.size() < kMaxConcurrentUnits &&
         steps_since_ >= steps_between_units(mean_steps_per_unit());
}

bool UnitRunner::has_room(const Unit& next) const {
  if (active_.empty()) return true;
  if (!is_due()) return false;
  std::int64_t tokens = estimate_context_tokens(*next.dialogue);
  for (const ActiveUnit& unit : active_) tokens += unit.tokens;
  return tokens <= kMaxConcurrentTokens;
}

void UnitRunner::add(Unit unit) {
  if (decoding_.isolated) engine_.memory().release_workspace();  // its own memory is measured
  ActiveUnit& active = active_.emplace_back();
  active.unit = std::move(unit);
  active.tokens = estimate_context_tokens(*active.unit.dialogue);
  if (decoding_.fidelity == Along::kFull) active.references = missing_references(active.unit.cells);
  const auto add_branch = [&](const UnitCell& cell, bool recorded) {
    Branch& b = active.branches.emplace_back();
    b.dialogue = active.unit.dialogue;
    b.cell = &cell;
    b.recorded = recorded;
    b.is_full = decoding_.fidelity && is_reference(cell);
  };
  for (const UnitCell& cell : active.unit.cells) add_branch(cell, true);
  for (const UnitCell& cell : active.references) add_branch(cell, false);
  steps_since_ = 0;
  if (ended_ > 0) return;
  most_steps_ = 0;
  for (const Turn& turn : active.unit.dialogue->turns)
    most_steps_ += static_cast<std::size_t>(answer_limit(decoding_, turn));
}

std::list<ActiveUnit> UnitRunner::step() {
  std::vector<ActiveUnit*> starting;
  for (ActiveUnit& unit : active_) {
    if (!unit.answered()) continue;
    ++unit.turn;
    for (Branch& b : unit.branches) {
      b.rendered = unit.branches.front().rendered;
      begin_turn(b, unit.turn);
    }
    unit.sharing = share_turn(unit, decoding_);
    for (std::size_t i = 0; i < unit.branches.size(); ++i) {
      Branch& b = unit.branches[i];
      const std::size_t decoder = unit.sharing.decoder_of[i];
      b.decoder = decoder == i ? nullptr : &unit.branches[decoder];
      b.finished |= b.decoder != nullptr;
    }
    starting.push_back(&unit);
  }
  if (!starting.empty()) prefill(starting);
  const auto start = Clock::now();
  decode_step();
  last_step_seconds_ = seconds_since(start);
  std::list<ActiveUnit> ended;
  for (auto unit = active_.begin(); unit != active_.end();) {
    const auto next = std::next(unit);
    if (unit->answered()) {
      copy_answers(*unit);
      if (decoding_.fidelity) measure_fidelity(*unit);
      for (Branch& b : unit->branches) finish_turn(*unit, b);
      if (unit->turn + 1 == static_cast<int>(unit->unit.dialogue->turns.size())) {
        ++ended_;
        ended_steps_ += unit->steps;
        ended.splice(ended.end(), active_, unit);
      }
    }
    unit = next;
  }
  return ended;
}

std::vector<Unit> UnitRunner::abandon() {
  std::vector<Unit> out;
  for (ActiveUnit& unit : active_) out.push_back(std::move(unit.unit));
  active_.clear();
  return out;
}

void UnitRunner::abandon_after(Clock::time_point time) {
  active_.remove_if([&](const ActiveUnit& unit) {
    return Clock::now() + std::chrono::duration<double>(seconds_left(unit)) > time;
  });
}

double UnitRunner::seconds_left(const ActiveUnit& unit) const {
  if (unit.turn < 0) return std::numeric_limits<double>::infinity();
  const std::vector<Turn>& turns = unit.unit.dialogue->turns;
  const auto begun = static_cast<std::size_t>(unit.turn) + 1;
  const auto limit = static_cast<std::size_t>(answer_limit(decoding_, turns[begun - 1]));
  std::size_t steps = 0;
  for (const Branch& b : unit.branches) {
    if (!b.finished) steps = std::max(steps, limit - b.answer.size());
  }
  if (steps > 0 && decoding_.fidelity) steps += limit;  // along the given answer
  const double turn_seconds = seconds_since(unit.began) / static_cast<double>(begun);
  return static_cast<double>(steps) * last_step_seconds_ +
         static_cast<double>(turns.size() - begun) * turn_seconds;
}

void UnitRunner::begin_turn(Branch& b, int turn) {
  if (turn > 0) {
    b.earlier_prompt_lengths.push_back(b.prompt.tokens.size());
    b.earlier_question_begins.push_back(b.question_begin);
  }
  b.begin_turn(renderer_, decoding_, b.cell->answers, turn);
  b.record.cell = b.cell->key;
  b.start = start_of(*b.cell, static_cast<std::size_t>(turn), b.dialogue->turns.size(),
                     decoding_.isolated);
  b.view = renderer_.view(b.prompt, *b.dialogue, turn);
  b.view.seed = policy_seed(decoding_, *b.dialogue);
  b.view.answer_limit = answer_limit(decoding_, b.dialogue->turns[turn]);
  if (b.evicts_before_question()) find_question(b);
  if (b.skips()) {
    b.finished = true;
    b.record.status = Record::Status::kNoValue;
    b.record.error = "not asked: with a dense history only the last turn is asked";
  } else if (b.cell->method->eager()) {
    check_eager(b);
  }
}

void UnitRunner::find_question(Branch& b) {
  const std::vector<Span>& spans = b.prompt.spans;
  const auto question = question_of(spans, b.view.turn);
  b.question_begin =
      question == spans.end() ? b.prompt.tokens.size() : static_cast<std::size_t>(question->begin);
  if (b.question_begin <= b.history_tokens) {
    throw input_error(
        "found turn {} without text before its question, expected some: {} evicts there",
        b.view.turn + 1, b.cell->method->name());
  }
  b.view_before_question = b.view;
  b.view_before_question.spans = std::span(spans.begin(), question);
  b.view_before_question.prompt = b.view.prompt.first(b.question_begin);
  b.view_before_question.prompt_spans = b.view_before_question.spans;
}

void UnitRunner::check_eager(Branch& b) const {
  const ModelShape& s = engine_.shape();
  const double n = static_cast<double>(b.prompt.tokens.size()),
               size = static_cast<double>(size_of(engine_.options().kv_dtype));
  const double bytes = s.heads * n * n * size + 2.0 * s.heads * n * s.head_dim * size;
  b.record.counters = {{"modelled_attention_bytes", bytes}};
  const std::size_t limit = engine_.options().memory_limit;
  if (limit > 0 &&
      bytes + static_cast<double>(engine_.model().weight_bytes()) > static_cast<double>(limit)) {
    throw memory_error(
        "eager attention over {} tokens needs {:.0f} MiB for its scores, more than the limit of "
        "{} MiB",
        b.prompt.tokens.size(), bytes / (1 << 20), limit >> 20);
  }
}

void UnitRunner::prefill(const std::vector<ActiveUnit*>& starting) {
  const auto before = Clock::now();
  for (ActiveUnit* unit : starting) prefill_dense_histories(engine_, decoding_, *unit);
  const auto start = Clock::now();
  if (decoding_.isolated) {
    engine_.memory().reset_peak();
    link_before_ = engine_.link_traffic();
  }
  std::vector<Prefill> work;
  // For each unit; prefixes of the previous turn are still used.
  std::vector<std::map<PrefixKey, Sequence>> prefixes;
  for (ActiveUnit* unit : starting) prefixes.push_back(add_prefills(engine_, *unit, work));
  prefill_shared_rows(engine_, work);
  prefill_blocks(engine_, work);
  std::vector<Pass> passes;
  for (Prefill& w : work) {
    w.pass.tokens = w.tokens;
    w.pass.prompt_end = true;
    w.unit->result.prefilled_tokens += static_cast<std::int64_t>(w.tokens.size());
    passes.push_back(w.pass);
  }
  const std::vector<std::vector<float>> logits = engine_.prefill(passes);
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (Branch* b : work[i].forks) b->logits = logits[i];
  }
  prefill_questions(engine_, work);
  for (ActiveUnit* unit : starting)
    unit->result.engine_seconds += seconds_since(before) / static_cast<double>(starting.size());
  if (decoding_.isolated) {
    prefill_peak_bytes_ = engine_.memory().peak_kv_bytes();
    engine_.memory().reset_peak();
  }
  for (ActiveUnit* unit : starting) unit->full_logits.clear();
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].is_full) work[i].unit->full_logits[work[i].pass.sequence->tokens] = logits[i];
    for (Branch* b : work[i].forks) keep_prompt_end(*b);
  }
  std::size_t branches = 0;
  for (ActiveUnit* unit : starting) {
    for (Branch& b : unit->branches) {
      branches += b.skips() ? 0 : 1;
      if (b.decoder != nullptr) keep_prompt_end(b);
    }
  }
  const double seconds =
      seconds_since(start) / static_cast<double>(std::max<std::size_t>(branches, 1));
  for (std::size_t i = 0; i < starting.size(); ++i) {
    starting[i]->prefixes = std::move(prefixes[i]);
    for (Branch& b : starting[i]->branches) {
      if (b.skips()) continue;
      b.prefill_seconds = seconds;
      b.decode_seconds = 0;
      if (b.decoder == nullptr) write_cache_counters(b);
    }
  }
  step_seconds_.clear();
}

void UnitRunner::keep_prompt_end(Branch& b) const {
  const Branch& from = b.decoder != nullptr ? *b.decoder : b;
  const bool is_forced = decoding_.fidelity && b.recorded && !b.is_full;
  if (is_forced) b.prompt_logits = from.logits;
  if (is_forced || b.takes_answer_back()) b.before_answer = from.sequence->fork();
}

void UnitRunner::decode_step() {
  const std::vector<int> stops = decoding_.isolated ? std::vector<int>{} : renderer_.stop_tokens();
  struct Feeding {
    ActiveUnit* unit;
    Branch* branch;
  };
  std::vector<Feeding> feeding;
  for (ActiveUnit& unit : active_) {
    for (Branch& b : unit.branches) {
      if (b.finished) continue;
      b.sample_token(b.logits, stops);
      if (!b.finished) feeding.push_back({&unit, &b});
    }
    ++unit.steps;
  }
  ++steps_since_;
  for (std::size_t first = 0; first < feeding.size(); first += kDecodeBatch) {
    const std::span<Feeding> batch =
        std::span(feeding).subspan(first, std::min(kDecodeBatch, feeding.size() - first));
    std::vector<Pass> passes;
    for (const auto& [unit, branch] : batch) {
      Pass pass;
      pass.sequence = &*branch->sequence;
      pass.tokens = std::span(branch->answer).last(1);
      pass.kind = Pass::Kind::kDecode;
      pass.dialogue = &branch->view;
      pass.evict = branch->evicts_in_answers();
      passes.push_back(pass);
    }
    const auto start = Clock::now();
    std::vector<std::vector<float>> logits = engine_.forward(passes);
    const double seconds = seconds_since(start);
    if (decoding_.isolated) step_seconds_.push_back(seconds);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i].branch->logits = std::move(logits[i]);
      batch[i].branch->decode_seconds += seconds / static_cast<double>(batch.size());
      ++batch[i].unit->result.decoded_tokens;
      batch[i].unit->result.engine_seconds += seconds / static_cast<double>(batch.size());
    }
  }
}

void UnitRunner::copy_answers(ActiveUnit& unit) {
  std::map<Branch*, double> sharers;
  for (Branch& b : unit.branches) {
    if (b.decoder == nullptr) continue;
    b.copy_answer(*b.decoder);
    if (keeps_cache(b.cell->history)) b.sequence = b.decoder->sequence->fork();
    sharers.try_emplace(b.decoder, 1.0).first->second += 1;
  }
  for (const auto& [decoder, count] : sharers) decoder->decode_seconds /= count;
}

std::vector<int> UnitRunner::given_answer(const ActiveUnit& unit, const Branch& b) const {
  const Turn& turn = b.dialogue->turns[unit.turn];
  if (decoding_.fidelity == Along::kGold) {
    // Without a reference the answer is empty, without the template's markup.
    return gold_answer_text(turn).empty() ? std::vector<int>() : renderer_.gold_answer_tokens(turn);
  }
  const auto reference = std::find_if(
      unit.branches.begin(), unit.branches.end(),
      [&](const Branch& other) { return other.cell->answers == b.cell->answers && other.is_full; });
  return reference->ended_answer();
}

void UnitRunner::measure_fidelity(ActiveUnit& unit) {
  // The batch contains the methods, and full attention on the prompt of each branch; a branch of
  // full attention serves as its own reference.
  struct Measured {
    Branch* branch;
    std::size_t own, full;  // indices in `forced`
    FidelityMeans means = {};
  };
  std::map<Answers, std::vector<int>> answers;
  std::map<std::pair<std::vector<int>, std::vector<int>>, std::size_t> full;  // by prompt, answer
  std::vector<ForcedSequence> forced;
  std::vector<Measured> measured;
  for (Branch& b : unit.branches) {
    if (!b.recorded) continue;
    const auto [given, is_first] = answers.try_emplace(b.cell->answers);
    if (is_first) given->second = given_answer(unit, b);
    const auto [reference, is_new] =
        full.try_emplace({b.prompt.tokens, given->second}, forced.size());
    if (is_new) {
      forced.push_back({unit.prefixes.at({kDensePrefill, b.prompt.tokens}).fork(),
                        unit.full_logits.at(b.prompt.tokens), &b.view, true, given->second});
    }
    Measured& m = measured.emplace_back(Measured{&b, reference->second, reference->second});
    if (!b.is_full) {
      m.own = forced.size();
      forced.push_back({b.before_answer->fork(), std::move(b.prompt_logits), &b.view,
                        b.evicts_in_answers(), given->second});
    }
    if (!b.takes_answer_back()) b.before_answer.reset();
  }
  const auto start = Clock::now();
  unit.result.decoded_tokens +=
      static_cast<std::int64_t>(decode_forced(engine_, forced, [&](std::size_t token) {
        std::map<std::size_t, FullPrediction> predictions;
        for (Measured& m : measured) {
          const ForcedSequence& reference = forced[m.full];
          if (token >= reference.answer.size()) continue;
          const FullPrediction& prediction =
              predictions.try_emplace(m.full, reference.logits).first->second;
          m.means.add(prediction.compare(forced[m.own].logits, reference.answer[token]));
        }
      }));
  unit.result.engine_seconds += seconds_since(start);
  for (const Measured& m : measured) {
    if (m.means.empty()) continue;  // no reference, or an empty one
    const FidelityValues values = m.means.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      unit.result.scores.push_back({m.branch->cell->key, m.branch->record.dialogue, unit.turn,
                                    std::string(kFidelityMetrics[i]), "none", values[i]});
    }
  }
}

void UnitRunner::write_cache_counters(Branch& b) const {
  b.record.counters.push_back({"kv_tokens", b.sequence->mean_tokens()});
  b.record.counters.push_back({"kv_bytes", static_cast<double>(b.sequence->kv_bytes())});
  b.record.counters.push_back(
      {"resident_kv_bytes", static_cast<double>(b.sequence->resident_kv_bytes())});
}

void UnitRunner::write_isolated(Branch& b) const {
  Record& r = b.record;
  r.timings.push_back({"ttft", b.prefill_seconds});
  const double steps = static_cast<double>(step_seconds_.size());
  if (steps > 0) {
    r.timings.push_back({"tt2t", b.prefill_seconds + step_seconds_.front()});
    std::vector<double> sorted = step_seconds_;
    std::sort(sorted.begin(), sorted.end());
    // Between two steps, a quantile is interpolated: the median of two steps is their mean.
    const auto at = [&](double share) {
      const double place = share * (steps - 1), rest = place - std::floor(place);
      const auto low = static_cast<std::size_t>(place);
      return std::lerp(sorted[low], sorted[std::min(low + 1, sorted.size() - 1)], rest);
    };
    const double all = std::accumulate(sorted.begin(), sorted.end(), 0.0);
    r.timings.push_back({"step", at(0.5)});
    r.timings.push_back({"step_p95", at(0.95)});
    if (steps > 1) r.timings.push_back({"tpot", (all - step_seconds_.front()) / (steps - 1)});
    r.timings.push_back({"decode_rate", steps / all});
    r.timings.push_back({"answer_rate", (steps + 1) / (b.prefill_seconds + all)});
  }
  if (b.sequence->policies.placement.host) {
    r.ledger = pack(b.sequence->counters.ledger);
    const LinkTraffic link = engine_.link_traffic();
    // Each chunk of a prompt reads the preceding tokens.
    r.counters.push_back({"prefill_fetch_bytes",
                          static_cast<double>(b.sequence->counters.ledger.total().prefill_bytes)});
    r.timings.push_back({"link", link.measured_seconds - link_before_.measured_seconds});
    r.timings.push_back(
        {"link_throttled", link.throttled_seconds - link_before_.throttled_seconds});
  }
  const auto fixed = engine_.model().weight_bytes() + engine_.memory().workspace_bytes();
  const std::size_t decode = engine_.memory().peak_kv_bytes();  // since the prefill
  r.counters.push_back(
      {"peak_bytes", static_cast<double>(fixed + std::max(prefill_peak_bytes_, decode))});
  r.counters.push_back({"decode_peak_bytes", static_cast<double>(fixed + decode)});
}

void UnitRunner::finish_turn(ActiveUnit& unit, Branch& b) {
  Record& r = b.record;
  if (b.decoder != nullptr) {
    r = b.decoder->record;
    r.cell = b.cell->key;
    if (b.recorded) unit.result.records.push_back(r);
    return;
  }
  if (b.skips()) {
    unit.result.records.push_back(r);
    return;
  }
  const Counters& c = b.sequence->counters;
  b.write_answer(renderer_, r);
  if (c.attentions > 0) r.counters.push_back({"attended_tokens", c.mean_attended()});
  if (c.prefill_pairs_dense > 0)
    r.counters.push_back({"prefill_pairs_share", c.prefill_pairs / c.prefill_pairs_dense});
  if (const auto& selection = b.sequence->policies.selection) {
    for (const auto& [name, value] : selection->counters()) r.counters.push_back({name, value});
  }
  if (b.sequence->policies.placement.host) {
    write_traffic(c.ledger, r);
    r.counters.push_back({"dense_fallback", b.sequence->is_offloaded() ? 0.0 : 1.0});
  }
  for (auto& [name, value] : r.counters) {
    if (name == "resident_kv_bytes") value += static_cast<double>(b.sequence->added_kv_bytes());
  }
  r.timings = {{"prefill_share", b.prefill_seconds},
               {"decode_share", b.decode_seconds},
               {"policy", c.policy_seconds}};
  if (decoding_.isolated) write_isolated(b);
  if (b.recorded) unit.result.records.push_back(r);
  if (!keeps_cache(b.cell->history)) b.sequence.reset();
}

}  // namespace turnbench
