#include "runners/pilot.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/thread_pool.h"
#include "harness/experiment/plan_prefills.h"
#include "runners/worker_engine.h"

namespace turnbench {
namespace {

constexpr double kMostFlops = 1e11;  // of forward passes: some seconds in total
// Maximum size of a model that is loaded for a pilot.
constexpr std::int64_t kMostParameters = 500'000'000;
constexpr int kMostAnswer = 256;               // tokens of an answer
constexpr int kMostPrompt = 512, kSteps = 16;  // for full attention alone
constexpr std::size_t kLeastPrompt = 16;

double value_of(const std::vector<Record::NamedValue>& values, std::string_view name) {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  return 0;
}

/// Runs parts of a plan in memory.
class PilotRun {
 public:
  PilotRun(const Plan& plan, std::size_t model, const Speeds& known, PlannedLengths& lengths,
           const RunOptions& options)
      : plan_(plan),
        model_(model),
        resolved_(plan.experiment.models[model]),
        known_(known),
        lengths_(lengths),
        options_(options),
        decoding_(plan.experiment.decoding(resolved_)) {
    for (const Cell& cell : plan.cells) cells_[cell.key] = &cell;
    if (decoding_.isolated) return;
    // An answer that does not end counts as one of full length.
    decoding_.max_new_tokens =
        decoding_.max_new_tokens > 0 ? std::min(decoding_.max_new_tokens, kMostAnswer) : 0;
  }

  Pilot run() {
    const std::vector<Unit> units = chosen_units();
    const std::optional<ProbeUnit> probes = chosen_probes();
    const bool fits = !units.empty() || probes;
    if (!fits && resolved_.checkpoint.config.parameter_count() > kMostParameters) return {};
    const auto loaders = make_backends(options_.devices, available_processors());
    const Model model(resolved_.checkpoint, pointers_to(loaders), resolved_.dtype,
                      resolved_.entry.math);
    const WorkerAssignment share = assign_workers(plan_, model_, options_);
    WorkerEngine worker(model, resolved_, decoding_, options_, share.threads);
    Pilot out;
    if (!fits) {
      out.times.push_back(time_full(worker.engine));
      return out;
    }
    const PromptRenderer renderer = plan_.experiment.renderer(resolved_);
    if (!units.empty()) {
      const auto start = Clock::now();
      const UnitResult result = run_units(worker.engine, renderer, decoding_, units);
      add(result, seconds_since(start), out);
    }
    if (probes) {
      const auto start = Clock::now();
      const UnitResult result = run_probes(worker.engine, renderer, decoding_, *probes);
      add(result, seconds_since(start), out);
    }
    out.units = units.size() + (probes ? 1 : 0);
    return out;
  }

 private:
  bool is_unknown(const std::string& cell) const {
    const Cell& c = *cells_.at(cell);
    return known_.of(c.model_hash, c.method_canonical, c.dataset_hash) == nullptr;
  }

  /// Operations of the first `turns` turns of a unit.
  double flops_of(const Unit& unit, std::size_t turns) const {
    const ModelConfig& config = resolved_.checkpoint.config;
    Dialogue beginning = *unit.dialogue;
    beginning.turns.resize(turns);
    Unit part = unit;
    part.dialogue = &beginning;
    PromptLengths lengths = lengths_.of(model_, *unit.dialogue);
    lengths.prompts.resize(turns);
    double out = 0;
    for (const PlannedPrefill& prefill :
         planned_prefills(part, lengths, decoding_.isolated, decoding_.fidelity))
      out += prefill.flops(config);
    std::int64_t tokens = 0;
    for (const Turn& turn : beginning.turns) tokens += answer_limit(decoding_, turn);
    return out +
           static_cast<double>(tokens * std::ssize(unit.cells)) * config.linear_flops_per_token();
  }

  /// Units of medium length that cover as many unknown methods as possible; of a long unit, its
  /// first turns.
  std::vector<Unit> chosen_units() {
    std::vector<const Unit*> units = plan_.units_of(model_);
    const auto unknown = [&](const Unit* unit) {
      return std::count_if(unit->cells.begin(), unit->cells.end(),
                           [&](const UnitCell& cell) { return is_unknown(cell.key); });
    };
    std::ptrdiff_t most = 0;
    for (const Unit* unit : units) most = std::max(most, unknown(unit));
    if (most == 0) return {};
    std::erase_if(units, [&](const Unit* unit) { return unknown(unit) < most; });
    std::stable_sort(units.begin(), units.end(), [&](const Unit* a, const Unit* b) {
      return lengths_.of(model_, *a->dialogue).prompts.back() <
             lengths_.of(model_, *b->dialogue).prompts.back();
    });
    std::vector<Unit> out;
    double flops = 0;
    for (std::size_t i = units.size() / 2; i < units.size(); ++i) {
      flops += flops_of(*units[i], units[i]->dialogue->turns.size());
      if (out.size() == kMaxConcurrentUnits || flops > kMostFlops) break;
      out.push_back(*units[i]);
    }
    if (!out.empty()) return out;
    Unit unit = *units[units.size() / 2];
    std::size_t turns = unit.dialogue->turns.size();
    while (turns > 0 && flops_of(unit, turns) > kMostFlops) --turns;
    if (turns == 0) return {};
    beginning_ = *unit.dialogue;
    beginning_.turns.resize(turns);
    unit.dialogue = &beginning_;
    return {unit};
  }

  /// The first unit of unknown probes whose first dialogue is short enough, with this dialogue
  /// alone.
  std::optional<ProbeUnit> chosen_probes() const {
    const double methods = 2;  // full attention, and the method that probes run
    for (const ProbeUnit* unit : plan_.probe_units_of(model_)) {
      if (std::none_of(unit->cells.begin(), unit->cells.end(),
                       [&](const ProbeCell& cell) { return is_unknown(cell.key); }))
        continue;
      double flops = 0;
      for (const std::int64_t prompt : lengths_.of(model_, *unit->dialogues.front()).prompts)
        flops += methods * prefill_flops(resolved_.checkpoint.config, prompt);
      if (flops > kMostFlops) continue;
      ProbeUnit out = *unit;
      out.dialogues.resize(1);
      return out;
    }
    return std::nullopt;
  }

  /// Adds the times of a result's dialogues.  Their shares are scaled to the total elapsed time,
  /// because some work is not assigned to any dialogue.
  void add(const UnitResult& result, double seconds, Pilot& out) const {
    std::map<std::pair<std::string, std::string>, TimedDialogue> by_dialogue;
    double shares = 0;
    for (const Record& r : result.records) {
      if (r.status != Record::Status::kOk) continue;
      const Cell& cell = *cells_.at(r.cell);
      TimedDialogue& timed = by_dialogue[{r.cell, r.dialogue}];
      timed.model_hash = cell.model_hash;
      timed.method = cell.method_canonical;
      timed.dataset_hash = cell.dataset_hash;
      timed.isolated = decoding_.isolated;
      timed.prompt_tokens = std::max(timed.prompt_tokens, r.prompt_tokens);
      ++timed.answers;
      timed.cut_answers += !r.stopped;
      timed.answer_tokens += r.answer_tokens.size();
      timed.ended_tokens += r.stopped ? r.answer_tokens.size() : 0;
      const double prefill =
          value_of(r.timings, "prefill_share") + value_of(r.timings, "probe_share");
      const double decode = value_of(r.timings, "decode_share");
      timed.prefill_seconds += prefill;
      timed.decode_seconds += decode;
      shares += prefill + decode;
    }
    for (auto& [of, timed] : by_dialogue) {
      if (shares > 0) {
        timed.prefill_seconds *= seconds / shares;
        timed.decode_seconds *= seconds / shares;
      }
      out.times.push_back(std::move(timed));
    }
  }

  /// Times full attention on a short prompt of arbitrary tokens.
  TimedDialogue time_full(Engine& engine) const {
    const ModelConfig& config = resolved_.checkpoint.config;
    const double most = kMostFlops / config.linear_flops_per_token();
    const auto count = static_cast<std::size_t>(std::min<double>(most, kMostPrompt));
    std::vector<int> tokens(std::max(count, kLeastPrompt));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int>(i % static_cast<std::size_t>(config.vocab));
    Sequence sequence = engine.make_sequence({});
    const Pass prompt{.sequence = &sequence, .tokens = tokens, .prompt_end = true};
    const auto start = Clock::now();
    engine.prefill({&prompt, 1});
    const auto answering = Clock::now();
    const Pass step{
        .sequence = &sequence, .tokens = {tokens.data(), 1}, .kind = Pass::Kind::kDecode};
    for (int i = 0; i < kSteps; ++i) engine.forward({&step, 1});
    TimedDialogue out;
    out.model_hash = resolved_.hash;
    out.isolated = decoding_.isolated;
    out.single = true;
    out.prompt_tokens = static_cast<int>(tokens.size());
    out.answers = out.cut_answers = 1;
    out.answer_tokens = kSteps;
    out.decode_seconds = seconds_since(answering);
    out.prefill_seconds = seconds_since(start) - out.decode_seconds;
    return out;
  }

  const Plan& plan_;
  const std::size_t model_;
  const ResolvedModel& resolved_;
  const Speeds& known_;
  PlannedLengths& lengths_;
  const RunOptions& options_;
  Decoding decoding_;
  Dialogue beginning_;  ///< the first turns of a dialogue that is too long
  std::map<std::string, const Cell*> cells_;
};

}  // namespace

Pilot run_pilot(const Plan& plan, std::size_t model, const Speeds& known, PlannedLengths& lengths,
                const RunOptions& options) {
  return PilotRun(plan, model, known, lengths, options).run();
}

}  // namespace turnbench
