#include "harness/unit.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <tuple>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "harness/turn_plans.h"

namespace turnbench {
namespace {

constexpr std::size_t kDecodeBatch = 64;  // branches that decode in one forward pass

/// One cell while its dialogue runs.
struct Branch : Conversation {
  const UnitCell* cell;
  std::optional<Sequence> sequence;
  /// Tokens of each earlier turn's prompt, with which this one begins.
  std::vector<std::size_t> known;
  std::shared_ptr<TurnPlans> plans = std::make_shared<TurnPlans>();
  DialogueView view;  ///< of this turn, as policies see it
  std::vector<float> logits;
  std::optional<Sequence>
      base;  ///< as it was before it answered, where the gold answer replaces its own
  double prefill_seconds = 0, decode_seconds = 0;  ///< of this turn: a share of what was batched

  bool reprefills() const { return cell->history == History::kReprefill; }
  /// When a prompt ends; and while it is answered.
  bool evicts(int turn) const { return turn == 0 || evicts_in_answers(); }
  bool evicts_in_answers() const { return cell->history != History::kCompressOnce; }
};

/// Sequences that hold everything a prompt computed: what later turns go on from.  By what decides
/// the prefill, and the prompt.
using TrunkKey = std::pair<std::string, std::vector<int>>;

/// A unit while it runs: its branches answer turn after turn together.
struct ActiveUnit {
  WorkUnit unit;
  std::vector<Branch> branches;
  std::map<TrunkKey, Sequence> trunks;  ///< of the turn
  int turn = -1;
  std::size_t steps = 0;  ///< decode steps made while it ran
  std::int64_t tokens = 0;
  UnitResult result;

  bool answered() const {
    return turn < 0 || std::all_of(branches.begin(), branches.end(),
                                   [](const Branch& b) { return b.finished; });
  }
};

/// Units that run together: each begins its next turn as soon as all its branches have answered,
/// while those of other units decode on.
class Runner {
 public:
  Runner(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding)
      : engine_(engine), renderer_(renderer), decoding_(decoding) {}

  bool empty() const { return active_.empty(); }

  /// Whether a further unit may join.  Units follow each other at a distance, so that they also
  /// end, and can be stored, one after the other.
  bool has_room(const WorkUnit& next) const {
    if (active_.empty()) return true;
    if (decoding_.alone || active_.size() >= kUnitsAtOnce) return false;
    std::int64_t tokens = rough_tokens(*next.dialogue);
    for (const ActiveUnit& unit : active_) tokens += unit.tokens;
    // A little closer than would be even, so that there is always a next one.
    return tokens <= kTokensAtOnce && 4 * kUnitsAtOnce * steps_since_ >= 3 * usual_steps();
  }

  void add(WorkUnit unit) {
    ActiveUnit& active = active_.emplace_back();
    active.unit = std::move(unit);
    active.tokens = rough_tokens(*active.unit.dialogue);
    active.branches.resize(active.unit.cells.size());
    for (std::size_t i = 0; i < active.branches.size(); ++i) {
      Branch& b = active.branches[i];
      b.dialogue = active.unit.dialogue;
      b.cell = &active.unit.cells[i];
    }
    steps_since_ = 0;
    if (ended_ > 0) return;
    most_steps_ = 0;
    for (const Turn& turn : active.unit.dialogue->turns)
      most_steps_ += static_cast<std::size_t>(answer_limit(decoding_, turn));
  }

  /// One decode step of all branches, after the prefill of those whose turn begins; returns the
  /// units that have answered their last turn.
  std::list<ActiveUnit> step() {
    std::vector<ActiveUnit*> starting;
    for (ActiveUnit& unit : active_) {
      if (!unit.answered()) continue;
      ++unit.turn;
      for (Branch& b : unit.branches) begin_turn(b, unit.turn);
      starting.push_back(&unit);
    }
    if (!starting.empty()) prefill(starting);
    decode_step();
    std::list<ActiveUnit> ended;
    for (auto unit = active_.begin(); unit != active_.end();) {
      const auto next = std::next(unit);
      if (unit->answered()) {
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

  /// Gives up what runs, after a failure, and says what it was.
  std::vector<WorkUnit> give_up() {
    std::vector<WorkUnit> out;
    for (ActiveUnit& unit : active_) out.push_back(std::move(unit.unit));
    active_.clear();
    return out;
  }

 private:
  /// Steps from a unit's beginning to its end: as many as those before took.
  std::size_t usual_steps() const { return ended_ > 0 ? ended_steps_ / ended_ : most_steps_; }

  void begin_turn(Branch& b, int turn) {
    if (turn > 0) b.known.push_back(b.prompt.tokens.size());
    b.begin_turn(renderer_, decoding_, b.cell->answers, turn);
    b.record.cell = b.cell->key;
    b.view = {b.prompt.tokens, b.prompt.spans, turn, policy_seed(b),
              [this](int token) { return renderer_.token_text(token); }};
    if (b.cell->method->eager()) check_eager(b);
  }

  /// An eager implementation holds every head's scores, and keys and values repeated to every head.
  void check_eager(Branch& b) const {
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

  std::uint64_t policy_seed(const Branch& b) const {
    return Random::from({decoding_.seed, seed_of(b.dialogue->id)}).next();
  }

  void prefill(const std::vector<ActiveUnit*>& starting) {
    struct Work {
      ActiveUnit* unit;
      Pass pass;
      std::vector<int> tokens;
      std::vector<Branch*> takers;
    };
    const auto start = Clock::now();
    if (decoding_.alone) engine_.reset_peak();
    std::vector<Work> work;
    std::vector<std::map<TrunkKey, Sequence>> trunks(starting.size());
    std::size_t branches = 0;
    for (const ActiveUnit* unit : starting) branches += unit->branches.size();
    work.reserve(branches);
    for (std::size_t i = 0; i < starting.size(); ++i) {
      ActiveUnit& unit = *starting[i];
      const int turn = unit.turn;
      std::map<TrunkKey, std::size_t> groups;
      for (Branch& b : unit.branches) {
        const bool continues = turn > 0 && !b.reprefills();
        if (!continues) b.sequence = engine_.make_sequence(b.cell->method->make());
        if (continues || decoding_.alone) {  // no trunk; alone, so that memory is the method's own
          Work& own = work.emplace_back();
          own.pass.dialogue = &b.view;
          own.tokens = continues ? continue_sequence(b) : prefill_known(unit, b);
          own.takers.push_back(&b);
          own.pass.sequence = &*b.sequence;
          own.pass.evict = b.evicts(turn);
          own.unit = &unit;
          continue;
        }
        const TrunkKey key{b.cell->method->prefill_key(), b.prompt.tokens};
        const auto [group, is_new] = groups.try_emplace(key, work.size());
        if (is_new) {
          auto [trunk, rest] = start_trunk(unit, b, key);
          const auto at = trunks[i].emplace(key, std::move(trunk)).first;
          Work& shared = work.emplace_back();
          shared.pass.dialogue = &b.view;
          shared.tokens = std::move(rest);
          shared.pass.sequence = &at->second;
          shared.unit = &unit;
        }
        work[group->second].takers.push_back(&b);
        work[group->second].pass.followers.push_back(&*b.sequence);
      }
    }
    std::vector<Pass> passes;
    for (Work& w : work) {
      w.pass.tokens = w.tokens;
      w.pass.prompt_end = true;
      w.unit->result.prefilled_tokens += static_cast<std::int64_t>(w.tokens.size());
      passes.push_back(w.pass);
    }
    const std::vector<std::vector<float>> logits = engine_.prefill(passes);
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (Branch* b : work[i].takers) {
        b->logits = logits[i];
        if (!b->reprefills() && b->cell->answers == Answers::kGold) b->base = b->sequence->fork();
      }
    }
    const double seconds = seconds_since(start) / static_cast<double>(branches);
    for (std::size_t i = 0; i < starting.size(); ++i) {
      starting[i]->trunks = std::move(trunks[i]);
      for (Branch& b : starting[i]->branches) {
        b.prefill_seconds = seconds;
        b.decode_seconds = 0;
        note_cache(b);
      }
    }
    steps_.clear();
  }

  /// A sequence that holds the previous turn's prompt of this very branch (another one's, even if
  /// it were longer, would split a sparse prefill elsewhere), and the tokens that are left to
  /// prefill.
  std::pair<Sequence, std::vector<int>> start_trunk(const ActiveUnit& unit, const Branch& b,
                                                    const TrunkKey& key) const {
    const auto& [prefill_key, prompt] = key;
    Policies policies;
    policies.prefill = b.cell->method->make().prefill;
    policies.method = b.cell->method->name();
    if (unit.turn > 0 && (!policies.prefill || policies.prefill->continues())) {
      const auto fresh = prompt.begin() + static_cast<std::ptrdiff_t>(b.known.back());
      Sequence next = unit.trunks.at({prefill_key, {prompt.begin(), fresh}}).fork();
      next.counters = {};
      return {std::move(next), std::vector<int>(fresh, prompt.end())};
    }
    int window = 0;
    bool raw_keys = false;
    for (const UnitCell& cell : unit.unit.cells) {
      const Policies p = cell.method->make();
      window = std::max(window, p.window());
      raw_keys |= p.raw_keys();
    }
    return {engine_.make_sequence(std::move(policies), window, raw_keys), prompt};
  }

  /// Makes a branch that prefills its whole dialogue by itself ready for its turn; returns the
  /// tokens to prefill.  Where a prompt may go on from an earlier one, as it does in a trunk, the
  /// rows of each earlier turn are computed in a pass of their own, as that turn planned them; what
  /// is counted is the turn's own rows.
  std::vector<int> prefill_known(ActiveUnit& unit, Branch& b) {
    Sequence& s = *b.sequence;
    const std::span<const int> prompt = b.prompt.tokens;
    std::size_t done = 0;
    if (b.reprefills() && s.policies.prefill && s.policies.prefill->continues()) {
      s.policies.prefill = std::make_unique<PlansOnce>(std::move(s.policies.prefill), b.plans);
      for (std::size_t end : b.known) {
        const Pass pass{
            .sequence = &s, .tokens = prompt.subspan(done, end - done), .dialogue = &b.view};
        engine_.prefill({&pass, 1});
        unit.result.prefilled_tokens += static_cast<std::int64_t>(end - done);
        done = end;
      }
      s.counters = {};
    }
    return {prompt.begin() + static_cast<std::ptrdiff_t>(done), prompt.end()};
  }

  /// Makes a branch that kept its cache ready for its next turn; returns the tokens to prefill.
  std::vector<int> continue_sequence(Branch& b) const {
    if (b.base) b.sequence = std::move(*b.base);
    b.base.reset();
    Sequence& s = *b.sequence;
    s.counters = {};
    if (s.policies.prefill && s.policies.prefill->recomputes_answer() && !s.policies.eviction)
      s.truncate(s.prompt_tokens);
    if (s.policies.eviction) {  // scores come from this turn's rows alone
      for (QueryTail& tail : s.tails) tail.clear();
    }
    const std::vector<int>& prompt = b.prompt.tokens;
    return {prompt.begin() + static_cast<std::ptrdiff_t>(s.tokens.size()), prompt.end()};
  }

  /// Draws a token for every branch that has not finished, and feeds those that still have not.
  void decode_step() {
    const std::vector<int> stops = decoding_.alone ? std::vector<int>{} : renderer_.stop_tokens();
    struct Feeding {
      ActiveUnit* unit;
      Branch* branch;
    };
    std::vector<Feeding> feeding;
    for (ActiveUnit& unit : active_) {
      for (Branch& b : unit.branches) {
        if (b.finished) continue;
        b.draw(b.logits, stops);
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
      if (decoding_.alone) steps_.push_back(seconds);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        batch[i].branch->logits = std::move(logits[i]);
        batch[i].branch->decode_seconds += seconds / static_cast<double>(batch.size());
        ++batch[i].unit->result.decoded_tokens;
      }
    }
  }

  void note_cache(Branch& b) const {
    b.record.counters.push_back({"kv_tokens", b.sequence->cache.mean_tokens()});
    b.record.counters.push_back(
        {"kv_bytes", static_cast<double>(b.sequence->cache.logical_bytes())});
  }

  void finish_turn(ActiveUnit& unit, Branch& b) {
    Record& r = b.record;
    const Counters& c = b.sequence->counters;
    b.note_answer(renderer_, r);
    if (c.attentions > 0) r.counters.push_back({"attended_tokens", c.mean_attended()});
    if (c.prefill_pairs_dense > 0)
      r.counters.push_back({"prefill_pairs_share", c.prefill_pairs / c.prefill_pairs_dense});
    if (b.sequence->policies.placement.host) {
      r.counters.push_back({"to_device_bytes", static_cast<double>(c.traffic.to_device_bytes)});
      r.counters.push_back({"cache_fill_bytes", static_cast<double>(c.traffic.cache_fill_bytes)});
      r.counters.push_back({"to_host_bytes", static_cast<double>(c.traffic.to_host_bytes)});
      r.counters.push_back({"cache_hits", static_cast<double>(c.traffic.hits)});
      r.counters.push_back({"cache_misses", static_cast<double>(c.traffic.misses)});
    }
    r.timings = {{"prefill_share", b.prefill_seconds},
                 {"decode_share", b.decode_seconds},
                 {"policy", c.policy_seconds}};
    if (decoding_.alone) {
      std::sort(steps_.begin(), steps_.end());
      const auto at = [&](double share) {
        return steps_[static_cast<std::size_t>(share * static_cast<double>(steps_.size() - 1) +
                                               0.5)];
      };
      r.timings.insert(r.timings.end(),
                       {{"ttft", b.prefill_seconds}, {"step", at(0.5)}, {"step_p95", at(0.95)}});
      r.counters.push_back(
          {"peak_bytes", static_cast<double>(engine_.model().weight_bytes() +
                                             engine_.peak_kv_bytes() + engine_.workspace_bytes())});
    }
    unit.result.records.push_back(r);
    if (b.reprefills()) b.sequence.reset();
  }

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  std::list<ActiveUnit> active_;  ///< oldest first
  std::size_t steps_since_ = 0;   ///< a unit joined
  std::size_t most_steps_ = 0, ended_ = 0, ended_steps_ = 0;
  std::vector<double> steps_;  ///< of a cell alone: seconds of this turn's decode steps
};

/// A unit by itself, after it failed in company; its cells one by one if it fails again.
UnitResult run_apart(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const WorkUnit& unit) {
  const auto failed = [&](const Error& error) {
    UnitResult out;
    if (unit.cells.size() == 1) {
      out.records = failed_records(unit.cells[0].key, *unit.dialogue, error);
      return out;
    }
    for (const UnitCell& cell : unit.cells)
      out.add(run_apart(engine, renderer, decoding, {unit.dialogue, {cell}}));
    return out;
  };
  try {
    Runner runner(engine, renderer, decoding);
    runner.add(unit);
    for (;;) {
      std::list<ActiveUnit> ended = runner.step();
      if (!ended.empty()) return std::move(ended.front().result);
    }
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed(memory_error("the system gave no more memory"));
  }
}

}  // namespace

std::int64_t rough_tokens(const Dialogue& dialogue) {
  std::int64_t out = 0;
  for (const Turn& turn : dialogue.turns) {
    for (const Paragraph& p : turn.contexts) out += static_cast<std::int64_t>(p.text.size() / 3);
  }
  return out;
}

void UnitResult::add(UnitResult part) {
  std::move(part.records.begin(), part.records.end(), std::back_inserter(records));
  std::move(part.scores.begin(), part.scores.end(), std::back_inserter(scores));
  prefilled_tokens += part.prefilled_tokens;
  decoded_tokens += part.decoded_tokens;
}

std::vector<Record> failed_records(const std::string& cell, const Dialogue& dialogue,
                                   const Error& error) {
  std::vector<Record> out;
  for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
    Record r;
    r.cell = cell;
    r.dialogue = dialogue.id;
    r.turn = static_cast<int>(t);
    r.status =
        error.kind() == ErrorKind::kMemory ? Record::Status::kOutOfMemory : Record::Status::kError;
    r.error = error.what();
    out.push_back(std::move(r));
  }
  return out;
}

void run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
               const std::function<std::optional<WorkUnit>()>& next,
               const std::function<void(const WorkUnit&, UnitResult)>& done) {
  Runner runner(engine, renderer, decoding);
  std::optional<WorkUnit> waiting = next();
  while (waiting || !runner.empty()) {
    if (waiting && runner.has_room(*waiting)) {
      runner.add(std::move(*waiting));
      waiting = next();
    }
    std::list<ActiveUnit> ended;
    bool failed = false;
    try {
      ended = runner.step();
    } catch (const Error&) {
      failed = true;
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    for (ActiveUnit& unit : ended) done(unit.unit, std::move(unit.result));
    if (!failed) continue;
    for (const WorkUnit& unit : runner.give_up())
      done(unit, run_apart(engine, renderer, decoding, unit));
  }
}

UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<WorkUnit>& units) {
  UnitResult out;
  auto unit = units.begin();
  run_units(
      engine, renderer, decoding,
      [&] { return unit == units.end() ? std::nullopt : std::optional(*unit++); },
      [&](const WorkUnit&, UnitResult result) { out.add(std::move(result)); });
  return out;
}

}  // namespace turnbench
