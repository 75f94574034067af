#include "harness/run/probe_unit.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "methods/parts/layer_sums.h"

namespace turnbench {
namespace {

/// Passes each layer of a prefill to the probes, all rows at once, and leaves attention dense.
class Observer : public PrefillPolicy {
 public:
  explicit Observer(std::function<void(LayerSums&)> show) : show_(std::move(show)) {}
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<Observer>(*this);
  }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    LayerSums sums(view);
    show_(sums);
    return {};
  }

 private:
  std::function<void(LayerSums&)> show_;
};

/// Recent query rows whose attention observers of a step request.
constexpr int kObservedRows = 1;

/// Passes a method's selections and attention outputs to the probes of some cells.
class MethodObserver : public LayerObserver {
 public:
  MethodObserver(const std::vector<std::unique_ptr<Probe>>& probes,
                 const std::vector<std::size_t>& cells, int layers)
      : probes_(probes), cells_(cells), layers_(layers) {}

  /// Sets whether the following passes are steps of an answer or rows of a prompt.
  void begin_pass(Pass::Kind kind) { decodes_ = kind == Pass::Kind::kDecode; }

  void selection(const LayerView& view, const Selection& selection) override {
    for (std::size_t c : cells_) probes_[c]->observe_selection(view, selection);
  }
  void outputs(const AttentionOutputs& outputs) override {
    for (std::size_t c : cells_) probes_[c]->observe_outputs({outputs, layers_, decodes_});
  }

 private:
  const std::vector<std::unique_ptr<Probe>>& probes_;
  const std::vector<std::size_t>& cells_;
  int layers_;
  bool decodes_ = false;
};

/// Thrown when a unit is abandoned.
struct Abandoned {};

class ProbeRun {
 public:
  ProbeRun(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
           const ProbeUnit& unit, const StopTime& stop)
      : engine_(engine),
        renderer_(renderer),
        decoding_(decoding),
        unit_(unit),
        stop_(stop),
        input_(required_input(unit.cells)) {
    for (const Dialogue* dialogue : unit.dialogues) {
      conversations_.emplace_back().dialogue = dialogue;
      left_ += dialogue->turns.size();
    }
    for (std::size_t c = 0; c < unit.cells.size(); ++c) {
      const std::optional<Method>& method = unit.cells[c].probe->method();
      if (method) watchers_[method->canonical()].push_back(c);
    }
  }

  UnitResult run() {
    for (std::size_t turn = 0;; ++turn) {
      std::vector<Conversation*> active;
      for (Conversation& conversation : conversations_) {
        if (turn < conversation.dialogue->turns.size()) active.push_back(&conversation);
      }
      if (active.empty()) return std::move(result_);
      const auto start = Clock::now();
      probes_.clear();
      for (const ProbeCell& cell : unit_.cells) probes_.push_back(cell.probe->make());
      for (Conversation* conversation : active) {
        require_time(left_, /*begun=*/measured_ > 0);
        --left_;
        conversation->begin_turn(renderer_, decoding_, unit_.answers, static_cast<int>(turn));
        measure(*conversation, static_cast<int>(turn));
        ++measured_;
      }
      finish_turn(active,
                  seconds_since(start) / static_cast<double>(active.size() * probes_.size()));
    }
  }

 private:
  /// A method that receives full attention's hidden states.
  struct Follower {
    Sequence method;
    /// Its own full attention, which probes do not observe, if it divides prompts.
    std::optional<Sequence> full;
    MethodObserver observer;
  };

  /// Full attention on a prompt and its answer, and the methods that follow it.
  struct Run {
    Sequence full;
    std::vector<Follower> followers;
    const DialogueView& view;
    DialogueView seeded = view;  ///< the view that methods receive
  };

  /// @throws Abandoned if the run stops and no prompt has `begun`, or `prompts` further prompts, as
  /// long as the mean so far, do not end in time.
  void require_time(std::size_t prompts, bool begun) const {
    const std::optional<Clock::time_point> time = stop_ ? stop_() : std::nullopt;
    if (!time) return;
    const double mean =
        seconds_since(start_) / static_cast<double>(std::max<std::size_t>(measured_, 1));
    const std::chrono::duration<double> rest(mean * static_cast<double>(prompts));
    if (!begun || Clock::now() + rest > *time) throw Abandoned();
  }

  void measure(Conversation& conversation, int turn) {
    const bool attends = input_ != ProbeInfo::Input::kText,
               answers = input_ == ProbeInfo::Input::kAnswer,
               goes_on = static_cast<std::size_t>(turn) + 1 < conversation.dialogue->turns.size() &&
                         unit_.answers == Answers::kOwn;
    if (conversation.prompt.tokens.size() < 2)
      throw input_error("found a prompt of {} tokens, expected at least 2",
                        conversation.prompt.tokens.size());
    DialogueView view = renderer_.view(conversation.prompt, *conversation.dialogue, turn);
    view.answer_limit = answer_limit(decoding_, conversation.dialogue->turns[turn]);
    for (const auto& probe : probes_) probe->begin(view);
    if (attends || goes_on) {
      bool in_answer = false;
      Run run{start(attends,
                    [&](LayerSums& layer) {
                      for (const auto& probe : probes_)
                        in_answer ? probe->observe_answer(layer) : probe->observe_prompt(layer);
                    }),
              {},
              view};
      run.seeded.seed = policy_seed(decoding_, *conversation.dialogue);
      for (const auto& [canonical, method] : methods_beside(unit_.cells)) {
        run.followers.push_back({engine_.make_sequence(method->make(), kObservedRows),
                                 {},
                                 {probes_, watchers_.at(canonical), engine_.shape().layers}});
        if (divides_prompts(*method)) run.followers.back().full = engine_.make_sequence({});
      }
      std::vector<float> logits = read(run, conversation.prompt.tokens, Pass::Kind::kPrefill);
      if (answers || goes_on) decode(conversation, run, std::move(logits));
      in_answer = true;
      if (answers && !conversation.answer.empty()) observe_answer(conversation, run);
    }
    for (const auto& probe : probes_) probe->end();
  }

  Sequence start(bool observed, const std::function<void(LayerSums&)>& show) const {
    Policies policies;
    if (observed) policies.prefill = std::make_unique<Observer>(show);
    int window = 0;
    for (const auto& probe : probes_) window = std::max(window, probe->window());
    return engine_.make_sequence(std::move(policies), window);
  }

  /// Processes tokens with full attention, and with every method from full attention's hidden
  /// states.
  std::vector<float> read(Run& run, std::span<const int> tokens, Pass::Kind kind) {
    const bool decodes = kind == Pass::Kind::kDecode;
    (decodes ? result_.decoded_tokens : result_.prefilled_tokens) += std::ssize(tokens);
    std::vector<Pass> passes = {{.sequence = &run.full,
                                 .tokens = tokens,
                                 .kind = kind,
                                 .dialogue = &run.view,
                                 .prompt_end = !decodes}};
    for (Follower& follower : run.followers) {
      if (!follower.full) passes.push_back(following(run, follower, passes.front()));
    }
    const auto start = Clock::now();
    // The engine may chunk sequences differently.
    const bool whole = decodes || passes.size() > 1;
    std::vector<float> logits = whole ? engine_.forward(passes)[0] : engine_.prefill(passes)[0];
    for (Follower& follower : run.followers) {
      if (follower.full) read_in_parts(run, follower, passes.front());
    }
    result_.engine_seconds += seconds_since(start);
    return logits;
  }

  /// A method's pass over the same tokens, which follows full attention.
  static Pass following(const Run& run, Follower& follower, Pass pass) {
    pass.sequence = &follower.method;
    pass.dialogue = &run.seeded;
    pass.follows = 0;
    follower.observer.begin_pass(pass.kind);
    pass.observer = &follower.observer;
    return pass;
  }

  /// Runs a method that divides prompts into parts, together with its own full attention.
  void read_in_parts(const Run& run, Follower& follower, Pass pass) {
    const bool ends = pass.prompt_end;
    pass.sequence = &*follower.full;
    for (std::span<const int> left = pass.tokens; !left.empty();) {
      const auto rows =
          static_cast<std::size_t>(follower.method.policies.prompt_selection()->segment_rows(
              run.seeded, follower.method.next_position, static_cast<int>(left.size())));
      pass.tokens = left.first(std::clamp<std::size_t>(rows, 1, left.size()));
      left = left.subspan(pass.tokens.size());
      pass.prompt_end = ends && left.empty();
      engine_.forward(std::vector<Pass>{pass, following(run, follower, pass)});
    }
  }

  /// Decodes the answer of full attention.
  void decode(Conversation& conversation, Run& run, std::vector<float> logits) {
    for (;;) {
      conversation.sample_token(logits, renderer_.stop_tokens());
      if (conversation.finished) return;
      require_time(left_, /*begun=*/true);
      logits = read(run, std::span(conversation.answer).last(1), Pass::Kind::kDecode);
    }
  }

  /// Processes the answer's rows in one pass, together with the prompt's last row, because policies
  /// do not receive passes of one row.
  void observe_answer(const Conversation& conversation, Run& run) {
    std::vector<int> rows = {conversation.prompt.tokens.back()};
    rows.insert(rows.end(), conversation.answer.begin(), conversation.answer.end());
    run.full.truncate(static_cast<std::int32_t>(conversation.prompt.tokens.size()) - 1);
    run.followers.clear();
    read(run, rows, Pass::Kind::kPrefill);
  }

  void finish_turn(const std::vector<Conversation*>& active, double seconds) {
    for (std::size_t c = 0; c < probes_.size(); ++c) {
      const ProbeCell& cell = unit_.cells[c];
      const std::vector<ProbeResult> results = probes_[c]->results();
      for (std::size_t i = 0; i < active.size(); ++i) {
        const Conversation& conversation = *active[i];
        Record r = conversation.record;
        r.cell = cell.key;
        if (cell.probe->info().input == ProbeInfo::Input::kAnswer)
          conversation.write_answer(renderer_, r);
        r.timings = {{"probe_share", seconds}};
        if (results[i].missing.empty()) {
          result_.scores.push_back({r.cell, r.dialogue, r.turn,
                                    std::string(cell.probe->info().metric), "none",
                                    results[i].value});
        } else {
          r.status = Record::Status::kNoValue;
          r.error = results[i].missing;
        }
        result_.records.push_back(std::move(r));
      }
    }
  }

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  const ProbeUnit& unit_;
  const StopTime& stop_;
  const Clock::time_point start_ = Clock::now();
  std::size_t measured_ = 0, left_ = 0;  ///< prompts: measured, and not begun yet
  ProbeInfo::Input input_;
  std::vector<Conversation> conversations_;
  /// The cells whose probes watch a method, by its canonical text.
  std::map<std::string, std::vector<std::size_t>> watchers_;
  std::vector<std::unique_ptr<Probe>> probes_;  ///< of this turn, one for each cell
  UnitResult result_;
};

UnitResult failed(const ProbeUnit& unit, const Error& error) {
  UnitResult out;
  for (const ProbeCell& cell : unit.cells) {
    for (const Dialogue* dialogue : unit.dialogues) {
      for (Record& r : failed_records(cell.key, *dialogue, error))
        out.records.push_back(std::move(r));
    }
  }
  if (error.kind() == ErrorKind::kDevice) out.lost_device = error.what();
  return out;
}

}  // namespace

ProbeInfo::Input required_input(const std::vector<ProbeCell>& cells) {
  auto input = ProbeInfo::Input::kText;
  for (const ProbeCell& cell : cells) input = std::max(input, cell.probe->info().input);
  return input;
}

std::map<std::string, const Method*> methods_beside(const std::vector<ProbeCell>& cells) {
  std::map<std::string, const Method*> out;
  for (const ProbeCell& cell : cells) {
    if (const auto& method = cell.probe->method()) out.emplace(method->canonical(), &*method);
  }
  return out;
}

bool divides_prompts(const Method& method) {
  return method.policies().selects_in_prefill();
}

UnitResult run_probes(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                      const ProbeUnit& unit, const StopTime& stop) {
  const bool alone = unit.cells.size() == 1;
  std::optional<Error> error;
  try {
    return ProbeRun(engine, renderer, decoding, unit, stop).run();
  } catch (const Abandoned&) {
    UnitResult out;
    out.abandoned = true;
    return out;
  } catch (const std::exception& exception) {
    error = as_error(exception);
    if (alone || error->kind() == ErrorKind::kDevice) return failed(unit, *error);
  }
  UnitResult out;
  ProbeUnit single = unit;
  for (const ProbeCell& cell : unit.cells) {  // cells fail individually
    single.cells = {cell};
    if (out.lost_device.empty() && !out.abandoned)
      out.add(run_probes(engine, renderer, decoding, single, stop));
  }
  if (error->kind() != ErrorKind::kMemory && !out.has(Record::Status::kError))
    out.batch_error = error->what();
  return out;
}

}  // namespace turnbench
