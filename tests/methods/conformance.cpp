#include "tests/methods/conformance.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>

#include "common/error.h"
#include "tests/inference/guarded_backend.h"

namespace turnbench::test {
namespace {

template <typename... Args>
void require(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw runtime_error(message, std::forward<Args>(args)...);
}

/// Bit-identical, on backends that guarantee this for any split into passes; otherwise nearly
/// equal.
bool agree(const Machine& machine, const Logits& a, const Logits& b) {
  return machine.backend->rows_are_independent() ? a == b : test::distance(a, b) <= 1e-4;
}

bool agree(const Machine& machine, const std::vector<Logits>& a, const std::vector<Logits>& b) {
  return machine.backend->rows_are_independent() ? a == b : test::distance(a, b) <= 1e-4;
}

void require_finite(std::span<const Logits> run) {
  for (std::size_t i = 0; i < run.size(); ++i)
    require(all_finite(run[i]), "step {}: found logits that are not finite", i);
}

/// Full attention with the candidate's codec, if it encodes the rows of a prefill.
Policies dense_part(const Candidate& candidate) {
  Policies out, made = candidate.make();
  if (made.row_codec() != nullptr) out.codec = std::move(made.codec);
  return out;
}

/// Continues from a shared prefix in the same way as `want` after its prompt.
void require_continues(Machine& machine, Conversation& rest, std::span<const int> answer,
                       const std::vector<Logits>& want) {
  for (std::size_t i = 0; i < answer.size(); ++i)
    require(agree(machine, rest.answer(answer[i]), want[i + 1]), "step {}: found other logits", i);
}

/// Two turns with their answers, and the tokens that their steps read.
struct TwoTurns {
  std::vector<Logits> logits;
  double attended = 0;
  bool operator==(const TwoTurns&) const = default;
};

/// Compares each selection of an answer with that of a policy whose index is built over all tokens
/// before the step.
class IndexObserver : public LayerObserver {
 public:
  explicit IndexObserver(const Candidate& candidate) : candidate_(candidate) {}

  void selection(const LayerView& view, const Selection& selection) override {
    if (view.layer == 0) fresh_ = candidate_.make().selection;
    std::vector<KvHeadCache> before(view.sets.begin(), view.sets.end());
    for (KvHeadCache& set : before) set.truncate(set.size() - 1);
    AttentionStats stats_before = view.stats.for_sets(before),
                   stats = view.stats.for_sets(view.sets);
    LayerMemo memo;
    Arena scratch(view.backend->memory());
    LayerView prompt{view.layer,
                     view.shape,
                     before,
                     stats_before,
                     view.dialogue,
                     view.first_position - 1,
                     1,
                     view.prompt_tokens,
                     0};
    LayerView step{view.layer,          view.shape, view.sets,          stats, view.dialogue,
                   view.first_position, 1,          view.prompt_tokens, 1};
    for (LayerView* of : {&prompt, &step}) {
      of->backend = view.backend;
      of->queries = view.queries;
      of->far_queries = view.far_queries;
      of->scale = view.scale;
      of->sliding_window = view.sliding_window;
      of->background = view.background;
      of->scratch = &scratch;
    }
    prompt.memo = &memo;
    fresh_->after_prefill(prompt);
    const Selection want = fresh_->select(step);
    require(selection.slots == want.slots,
            "step {}, layer {}: found other slots than an index over all {} tokens gives",
            view.generated, view.layer, before.front().size());
  }

 private:
  const Candidate& candidate_;
  std::unique_ptr<SelectionPolicy> fresh_;
};

}  // namespace

std::vector<Logits> logits_of(Conversation& conversation, std::span<const int> prompt,
                              std::span<const int> answer) {
  std::vector<Logits> out = {conversation.turn(prompt)};
  for (int token : answer) out.push_back(conversation.answer(token));
  return out;
}

std::vector<Logits> logits_of(Engine& engine, Policies policies, std::span<const int> prompt,
                              std::span<const int> answer) {
  Conversation conversation(engine, std::move(policies));
  return logits_of(conversation, prompt, answer);
}

float distance(const std::vector<Logits>& a, const std::vector<Logits>& b) {
  float worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const float d = test::distance(a[i], b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

std::string ConformanceChecks::finding(Check check, const Candidate& candidate) {
  try {
    (this->*check)(candidate);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

std::span<const std::pair<const char*, ConformanceChecks::Check>> ConformanceChecks::all() {
  using C = ConformanceChecks;
  static constexpr std::pair<const char*, Check> kAll[] = {
      {"is_deterministic", &C::is_deterministic},
      {"split_prefills_agree", &C::split_prefills_agree},
      {"followers_equal_sequences_alone", &C::followers_equal_sequences_alone},
      {"forks_are_independent", &C::forks_are_independent},
      {"batches_change_nothing", &C::batches_change_nothing},
      {"later_turns", &C::later_turns},
      {"placements_agree", &C::placements_agree},
      {"steps_extend_the_index", &C::steps_extend_the_index},
      {"keeps_to_device_memory", &C::keeps_to_device_memory}};
  return kAll;
}

Machine& ConformanceChecks::machine_of(const std::string& model, int threads,
                                       Engine::Options options) {
  const auto key = std::tuple(model, threads, options.prefill_chunk);
  return machines_.try_emplace(key, model, threads, options).first->second;
}

Machine& ConformanceChecks::guarded_machine() {
  if (guarded_ == nullptr) {
    guarded_ = std::make_unique<Machine>(
        "llama3",
        std::make_unique<GuardedBackend>(make_cpu_backend(2), std::make_shared<Territories>(), 0,
                                         /*is_device=*/true));
  }
  return *guarded_;
}

const std::vector<Logits>& ConformanceChecks::alone(Machine& machine, const Candidate& candidate) {
  std::vector<Logits>& out = alone_[{machine.name, candidate.name}];
  if (out.empty()) out = logits_of(machine.engine, candidate.make(), prompt_, answer_);
  return out;
}

void ConformanceChecks::is_deterministic(const Candidate& candidate) {
  Machine& two = machine_of("llama3");
  Machine& three = machine_of("llama3", 3);
  Machine& chunks = machine_of("llama3", 1, {.prefill_chunk = 37});
  const std::vector<Logits>& want = alone(two, candidate);
  require_finite(want);
  const auto run = [&](Machine& machine) {
    return logits_of(machine.engine, candidate.make(), prompt_, answer_);
  };
  require(run(two) == want, "a second time: found other logits");
  require(run(three) == want, "with three threads: found other logits");
  require(agree(chunks, run(chunks), want), "in chunks of 37 rows: found other logits");
}

// The shared prefix of the earlier turn, and the rest.  A sparse prefill plans each part
// separately.
void ConformanceChecks::split_prefills_agree(const Candidate& candidate) {
  if (candidate.make().has_sparse_prefill()) return;
  Machine& machine = machine_of("llama3");
  const std::vector<Logits>& want = alone(machine, candidate);
  const std::size_t first_part = prompt_.size() * 2 / 3;
  Conversation prefix(machine.engine, dense_part(candidate), 64, true);
  Sequence earlier = machine.engine.make_sequence(candidate.make());
  prefix.turn_with_forks(std::span(prompt_).first(first_part), {&earlier});
  Sequence fork = machine.engine.make_sequence(candidate.make());
  Conversation whole(machine.engine, {});  // labels the prompt as one turn, as in `want`
  const DialogueView dialogue = whole.begin_turn(prompt_);
  Pass pass = prefix.prefill_pass(std::span(prompt_).subspan(first_part), dialogue);
  pass.forks = {&fork};
  const Logits first = machine.engine.prefill({&pass, 1})[0];
  require(agree(machine, first, want[0]), "prompt: found other logits");
  Conversation rest(machine.engine, std::move(fork));
  rest.spans = whole.spans;
  require_continues(machine, rest, answer_, want);
}

void ConformanceChecks::followers_equal_sequences_alone(const Candidate& candidate) {
  Machine& machine = machine_of("llama3");
  Conversation own(machine.engine, candidate.make());
  const auto want = logits_of(own, prompt_, answer_);
  Conversation prefix(machine.engine, candidate.make().prefill_part(), 64, true);
  Sequence full = machine.engine.make_sequence(dense_part(candidate)),
           fork = machine.engine.make_sequence(candidate.make());
  require(agree(machine, prefix.turn_with_forks(prompt_, {&full, &fork}), want[0]),
          "prompt: found other logits");
  Conversation rest(machine.engine, std::move(fork));
  rest.spans = prefix.spans;
  require_continues(machine, rest, answer_, want);
  require(kept_sizes(rest.sequence) == kept_sizes(own.sequence), "found other sizes of KV sets");
  const Counters &a = rest.sequence.counters, &b = own.sequence.counters;
  require(a.attended_tokens == b.attended_tokens, "found {} attended tokens, expected {}",
          a.attended_tokens, b.attended_tokens);
  require(a.prefill_pairs == b.prefill_pairs && a.prefill_pairs_dense == b.prefill_pairs_dense,
          "found {} pairs, expected {}", a.prefill_pairs, b.prefill_pairs);
}

void ConformanceChecks::forks_are_independent(const Candidate& candidate) {
  Machine& machine = machine_of("llama3");
  const std::vector<Logits>& want = alone(machine, candidate);
  const std::size_t begun = answer_.size() / 3;
  Conversation original(machine.engine, candidate.make());
  logits_of(original, prompt_, std::span(answer_).first(begun));
  Conversation fork = original.fork(), astray = original.fork();
  for (std::size_t i = begun; i < answer_.size(); ++i) {
    astray.answer(question_[i]);
    require(fork.answer(answer_[i]) == want[i + 1], "fork, step {}: found other logits", i);
    require(original.answer(answer_[i]) == want[i + 1], "original, step {}: found other logits", i);
  }
}

void ConformanceChecks::batches_change_nothing(const Candidate& candidate) {
  Machine& machine = machine_of("llama3");
  const std::size_t count = is_emulated() ? 3 : 8, steps = is_emulated() ? 2 : 8;
  const int shortest = is_emulated() ? 30 : 60, longer = is_emulated() ? 15 : 23;
  std::vector<Conversation> talks;
  std::vector<std::vector<Logits>> want;
  std::vector<std::vector<int>> prompts;
  for (std::size_t i = 0; i < count; ++i) {
    prompts.push_back(synthetic_tokens(shortest + longer * static_cast<int>(i), i));
    want.push_back(
        logits_of(machine.engine, candidate.make(), prompts[i], std::span(answer_).first(steps)));
    talks.emplace_back(machine.engine, candidate.make());
  }
  std::vector<DialogueView> views(count);
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < count; ++i) {
    views[i] = talks[i].begin_turn(prompts[i]);
    passes.push_back(talks[i].prefill_pass(prompts[i], views[i]));
  }
  std::vector<Logits> got = machine.engine.prefill(passes);
  for (std::size_t step = 0; step <= steps; ++step) {
    for (std::size_t i = 0; i < count; ++i)
      require(agree(machine, got[i], want[i][step]), "dialogue {}, step {}: found other logits", i,
              step);
    if (step == steps) break;
    std::vector<std::vector<int>> said(count);
    for (std::size_t i = 0; i < count; ++i) {
      said[i] = talks[i].sequence.tokens;
      said[i].push_back(answer_[step]);
      views[i].tokens = said[i];
      passes[i].tokens = {&answer_[step], 1};
      passes[i].kind = Pass::Kind::kDecode;
      passes[i].prompt_end = false;
    }
    got = machine.engine.forward(passes);
  }
}

void ConformanceChecks::later_turns(const Candidate& candidate) {
  Machine& machine = machine_of("llama3");
  const auto answer = std::span(answer_).first(is_emulated() ? 1 : 5);
  const bool evicts = candidate.make().eviction != nullptr;
  for (const bool recompress : {false, true}) {
    Conversation c(machine.engine, candidate.make());
    c.turn(prompt_);
    const auto answered = [&] {
      for (int token : answer)
        require(all_finite(c.answer(token, recompress)), "found logits that are not finite");
    };
    const double first = c.sequence.mean_tokens();
    answered();
    const double before = c.sequence.mean_tokens();
    require(recompress || before == first + static_cast<double>(answer.size()),
            "compress_once: found {} tokens after an answer of {} to {}", before, answer.size(),
            first);
    for (int turn = 0; turn < 2; ++turn) {
      require(all_finite(c.turn(question_, recompress)), "found logits that are not finite");
      answered();
    }
    const double after = c.sequence.mean_tokens(),
                 all = before + 2.0 * static_cast<double>(question_.size() + answer.size());
    require(recompress && evicts ? after < all : after == all,
            "{}: found {} tokens after two more turns, whose tokens make {}",
            recompress ? "recompress" : "compress_once", after, all);
  }
}

void ConformanceChecks::placements_agree(const Candidate& candidate) {
  Machine& machine = machine_of("llama3");
  const auto run = [&](const Placement& placement) {
    Policies policies = candidate.make();
    policies.placement = placement;
    Conversation c(machine.engine, std::move(policies));
    TwoTurns out{logits_of(c, prompt_, answer_)};
    for (Logits& logits : logits_of(c, question_, std::span(answer_).first(answer_.size() / 4)))
      out.logits.push_back(std::move(logits));
    out.attended = c.sequence.counters.attended_tokens;
    return out;
  };
  const Policies policies = candidate.make();
  if (policies.group_codec() != nullptr) return;  // host memory is refused
  Placement own = policies.placement;
  own.host = false;
  const TwoTurns want = run(own);
  own.host = true;
  std::vector<std::pair<std::string, Placement>> on_host = {{"its own rule", own}};
  using Rule = Residency::Rule;
  if (!is_emulated() && capability<KeyRebuilder>(policies.selection.get()) == nullptr) {
    on_host.push_back({"cache_rule=lru", {true, Rule::kLru, 48, 8, 2}});
    on_host.push_back({"cache_rule=demand-lru", {true, Rule::kDemandLru, 0, 8}});
    on_host.push_back({"cache_rule=previous", {true, Rule::kPrevious, 0, 16}});
  }
  for (const auto& [what, placement] : on_host) {
    const TwoTurns got = run(placement);
    require(got.logits == want.logits, "in host memory with {}: found other logits", what);
    require(got.attended == want.attended,
            "in host memory with {}: found {} attended tokens, expected {}", what, got.attended,
            want.attended);
  }
}

void ConformanceChecks::steps_extend_the_index(const Candidate& candidate) {
  Policies policies = candidate.make();
  if (!policies.selection) return;
  policies.placement.host = false;
  Conversation c(machine_of("llama3").engine, std::move(policies), /*tail_rows=*/1);
  IndexObserver observer(candidate);
  c.observer = &observer;
  logits_of(c, prompt_, answer_);
}

void ConformanceChecks::keeps_to_device_memory(const Candidate& candidate) {
  if (is_emulated()) return;           // the backend refuses them itself
  if (candidate.make().codec) return;  // refused: the host encodes and decodes rows
  for (const bool host : {false, true}) {
    std::vector<std::vector<Logits>> runs;
    for (Machine* machine : {&machine_of("llama3"), &guarded_machine()}) {
      Policies policies = candidate.make();
      policies.placement.host = host;
      runs.push_back(logits_of(machine->engine, std::move(policies), prompt_,
                               std::span(answer_).first(answer_.size() / 2)));
    }
    require(runs[0] == runs[1], "{}: found other logits than with memory that is the host's",
            host ? "in host memory" : "on the device");
  }
}

}  // namespace turnbench::test
