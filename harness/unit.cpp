#include "harness/unit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <tuple>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"

namespace turnbench {
namespace {

constexpr std::size_t kDecodeBatch = 64;  // branches that decode in one forward pass

/// One cell while its dialogue runs.
struct Branch : Conversation {
  const WorkUnit* unit;
  const UnitCell* cell;
  std::optional<Sequence> sequence;
  std::size_t known = 0;  ///< tokens of the previous turn's prompt, with which this one begins
  DialogueView view;      ///< of this turn, as policies see it
  std::vector<float> logits;
  std::optional<Sequence>
      base;  ///< as it was before it answered, where the gold answer replaces its own

  bool reprefills() const { return cell->history == History::kReprefill; }
  bool evicts(int turn) const { return turn == 0 || cell->history != History::kCompressOnce; }
};

/// Sequences that hold everything a prompt computed: what later turns go on from.
using TrunkKey = std::tuple<const WorkUnit*, std::string, std::vector<int>>;

class Runner {
 public:
  Runner(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
         const std::vector<WorkUnit>& units)
      : engine_(engine), renderer_(renderer), decoding_(decoding) {
    for (const WorkUnit& unit : units) {
      for (const UnitCell& cell : unit.cells) {
        Branch b;
        b.dialogue = unit.dialogue;
        b.unit = &unit;
        b.cell = &cell;
        branches_.push_back(std::move(b));
      }
    }
  }

  UnitResult run() {
    for (std::size_t turn = 0;; ++turn) {
      std::vector<Branch*> active;
      for (Branch& b : branches_) {
        if (turn < b.dialogue->turns.size()) active.push_back(&b);
      }
      if (active.empty()) return std::move(result_);
      for (Branch* b : active) begin_turn(*b, static_cast<int>(turn));
      if (decoding_.alone) engine_.reset_peak();
      auto start = Clock::now();
      prefill(active, static_cast<int>(turn));
      const double prefill_seconds = seconds_since(start) / static_cast<double>(active.size());
      for (Branch* b : active) note_cache(*b);
      start = Clock::now();
      decode(active, static_cast<int>(turn));
      const double decode_seconds = seconds_since(start) / static_cast<double>(active.size());
      for (Branch* b : active) finish_turn(*b, prefill_seconds, decode_seconds);
    }
  }

 private:
  void begin_turn(Branch& b, int turn) {
    b.known = b.prompt.tokens.size();
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

  void prefill(const std::vector<Branch*>& active, int turn) {
    struct Work {
      Pass pass;
      std::vector<int> tokens;
      std::vector<Branch*> takers;
    };
    std::vector<Work> work;
    std::map<TrunkKey, Sequence> trunks;
    std::map<TrunkKey, std::size_t> groups;
    work.reserve(active.size());
    for (Branch* b : active) {
      const bool continues = turn > 0 && !b->reprefills();
      if (!continues) b->sequence = engine_.make_sequence(b->cell->method->make());
      if (continues || decoding_.alone) {  // no trunk; alone, so that memory is the method's own
        Work& own = work.emplace_back();
        own.pass.dialogue = &b->view;
        own.tokens = continues ? continue_sequence(*b) : b->prompt.tokens;
        own.takers.push_back(b);
        own.pass.sequence = &*b->sequence;
        own.pass.evict = b->evicts(turn);
        continue;
      }
      const TrunkKey key{b->unit, b->cell->method->prefill_key(), b->prompt.tokens};
      const auto [group, is_new] = groups.try_emplace(key, work.size());
      if (is_new) {
        auto [trunk, rest] = start_trunk(*b, key, turn);
        const auto at = trunks.emplace(key, std::move(trunk)).first;
        Work& shared = work.emplace_back();
        shared.pass.dialogue = &b->view;
        shared.tokens = std::move(rest);
        shared.pass.sequence = &at->second;
      }
      work[group->second].takers.push_back(b);
      work[group->second].pass.followers.push_back(&*b->sequence);
    }
    std::vector<Pass> passes;
    for (Work& w : work) {
      w.pass.tokens = w.tokens;
      w.pass.prompt_end = true;
      result_.prefilled_tokens += static_cast<std::int64_t>(w.tokens.size());
      passes.push_back(w.pass);
    }
    const std::vector<std::vector<float>> logits = engine_.prefill(passes);
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (Branch* b : work[i].takers) {
        b->logits = logits[i];
        if (!b->reprefills() && b->cell->answers == Answers::kGold) b->base = b->sequence->fork();
      }
    }
    trunks_ = std::move(trunks);
  }

  /// A sequence that holds the previous turn's prompt of this very branch (another one's, even if
  /// it were longer, would split a sparse prefill elsewhere), and the tokens that are left to
  /// prefill.
  std::pair<Sequence, std::vector<int>> start_trunk(const Branch& b, const TrunkKey& key,
                                                    int turn) const {
    const auto& [unit, prefill_key, prompt] = key;
    Policies policies;
    policies.prefill = b.cell->method->make().prefill;
    if (turn > 0 && (!policies.prefill || policies.prefill->continues())) {
      const auto fresh = prompt.begin() + static_cast<std::ptrdiff_t>(b.known);
      Sequence next = trunks_.at({unit, prefill_key, {prompt.begin(), fresh}}).fork();
      next.counters = {};
      return {std::move(next), std::vector<int>(fresh, prompt.end())};
    }
    int window = 0;
    bool raw_keys = false;
    for (const UnitCell& cell : unit->cells) {
      const Policies p = cell.method->make();
      window = std::max(window, p.window());
      raw_keys |= p.raw_keys();
    }
    return {engine_.make_sequence(std::move(policies), window, raw_keys), prompt};
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

  void decode(const std::vector<Branch*>& active, int turn) {
    const std::vector<int> stops = decoding_.alone ? std::vector<int>{} : renderer_.stop_tokens();
    steps_.clear();
    for (;;) {
      std::vector<Branch*> feeding;
      for (Branch* b : active) {
        if (b->finished) continue;
        b->draw(b->logits, stops);
        if (!b->finished) feeding.push_back(b);
      }
      if (feeding.empty()) return;
      for (std::size_t first = 0; first < feeding.size(); first += kDecodeBatch) {
        std::vector<Pass> passes;
        for (std::size_t i = first; i < std::min(first + kDecodeBatch, feeding.size()); ++i) {
          Pass pass;
          pass.sequence = &*feeding[i]->sequence;
          pass.tokens = std::span(feeding[i]->answer).last(1);
          pass.kind = Pass::Kind::kDecode;
          pass.dialogue = &feeding[i]->view;
          pass.evict = feeding[i]->evicts(turn);
          passes.push_back(pass);
        }
        const auto start = Clock::now();
        std::vector<std::vector<float>> logits = engine_.forward(passes);
        steps_.push_back(seconds_since(start));
        for (std::size_t i = 0; i < passes.size(); ++i)
          feeding[first + i]->logits = std::move(logits[i]);
        result_.decoded_tokens += static_cast<std::int64_t>(passes.size());
      }
    }
  }

  void note_cache(Branch& b) const {
    b.record.counters.push_back({"kv_tokens", b.sequence->cache.mean_tokens()});
    b.record.counters.push_back(
        {"kv_bytes", static_cast<double>(b.sequence->cache.logical_bytes())});
  }

  void finish_turn(Branch& b, double prefill_seconds, double decode_seconds) {
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
    r.timings = {{"prefill_share", prefill_seconds},
                 {"decode_share", decode_seconds},
                 {"policy", c.policy_seconds}};
    if (decoding_.alone) {
      std::sort(steps_.begin(), steps_.end());
      const auto at = [&](double share) {
        return steps_[static_cast<std::size_t>(share * static_cast<double>(steps_.size() - 1) +
                                               0.5)];
      };
      r.timings.insert(r.timings.end(),
                       {{"ttft", prefill_seconds}, {"step", at(0.5)}, {"step_p95", at(0.95)}});
      r.counters.push_back(
          {"peak_bytes", static_cast<double>(engine_.model().weight_bytes() +
                                             engine_.peak_kv_bytes() + engine_.workspace_bytes())});
    }
    result_.records.push_back(r);
    if (b.reprefills()) b.sequence.reset();
  }

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  std::vector<Branch> branches_;
  std::map<TrunkKey, Sequence> trunks_;  ///< of the previous turn
  std::vector<double> steps_;            ///< seconds of this turn's decode steps
  UnitResult result_;
};

}  // namespace

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

UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<WorkUnit>& units) {
  const bool alone = units.size() == 1 && units[0].cells.size() == 1;
  const auto failed = [&](const Error& error) {
    UnitResult out;
    out.records = failed_records(units[0].cells[0].key, *units[0].dialogue, error);
    return out;
  };
  try {
    return Runner(engine, renderer, decoding, units).run();
  } catch (const Error& error) {
    if (alone) return failed(error);
  } catch (const std::bad_alloc&) {
    if (alone) return failed(memory_error("the system gave no more memory"));
  }
  // Smaller and smaller parts, until what fails stands alone.
  UnitResult out;
  for (const WorkUnit& unit : units) {
    std::vector<WorkUnit> parts;
    if (units.size() > 1) {
      parts.push_back(unit);
    } else {
      for (const UnitCell& cell : unit.cells) parts.push_back({unit.dialogue, {cell}});
    }
    for (const WorkUnit& part : parts) out.add(run_units(engine, renderer, decoding, {part}));
  }
  return out;
}

}  // namespace turnbench
