// Memory of a plan's units while they run.

#include "harness/experiment/plan_memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "harness/experiment/batch_memory.h"
#include "harness/experiment/planned_turn.h"
#include "harness/experiment/unit_memory.h"

namespace turnbench {
namespace {

/// Maximum memory of a worker over all batches of one model that it may run.
class LargestBatch {
 public:
  LargestBatch(const ResolvedModel& model, std::span<const Device> devices,
               std::optional<Along> fidelity,
               const std::function<const PromptLengths&(const Dialogue&)>& lengths)
      : model_(model), devices_(devices), fidelity_(fidelity), lengths_(lengths) {}

  WorkerBytes bytes() const { return {agreeing_.total(), at_most_.total()}; }

  /// Considers a unit's cells one by one, each alone in every turn.
  void consider_isolated(const Unit& unit) {
    for (const Unit& part : unit.split()) {
      for (std::size_t turn = 0; turn < unit.dialogue->turns.size(); ++turn) {
        BatchMemory batch(model_, devices_);
        add(batch, part, turn, HistoryAnswers::kAgree, true, true);
        consider(batch.bytes(), batch.bytes());
      }
    }
  }

  /// Considers the units of a worker, which begins them in this order, as UnitRunner does.  Time is
  /// counted in decode steps; every answer has its planned length.
  void consider_in_order(std::span<const Unit* const> units) {
    std::vector<Scheduled> active;
    std::size_t next = 0;
    std::int64_t room = 0;  // when another unit may begin
    for (std::int64_t now = 0;;) {
      std::erase_if(active, [&](const Scheduled& u) { return u.turns.back() <= now; });
      if (next < units.size() && (active.empty() || (now >= room && fits(active, *units[next])))) {
        active.push_back(begin(*units[next++], now));
        room = now + active.back().distance();
      }
      if (active.empty()) return;
      if (std::any_of(active.begin(), active.end(), [&](auto& u) { return u.begins_turn(now); }))
        consider(together(active, now, HistoryAnswers::kAgree),
                 together(active, now, HistoryAnswers::kDiffer));
      std::int64_t then = room > now ? room : std::numeric_limits<std::int64_t>::max();
      for (const Scheduled& u : active)
        then = std::min(then, *std::upper_bound(u.turns.begin(), u.turns.end(), now));
      now = then;
    }
  }

  /// Considers the dialogues of probes, one after another.
  void consider_probes(const ProbeUnit& unit) {
    const bool attends = required_input(unit.cells) != ProbeInfo::Input::kText;
    for (const Dialogue* dialogue : unit.dialogues) {
      const bool goes_on = unit.answers == Answers::kOwn && dialogue->turns.size() > 1;
      if (!attends && !goes_on) continue;
      const PromptLengths& n = lengths_(*dialogue);
      BatchMemory batch(model_, devices_);
      const std::int64_t prompt = n.prompts.back(), all = prompt + n.answers.back();
      const int heads = model_.checkpoint.config.kv_heads;
      const auto beside = methods_beside(unit.cells);
      bool pre_rope_keys = false;
      batch.add(all, heads, batch.layout({}), 1);
      for (const auto& [canonical, method] : beside) {
        const Policies& p = method->policies();
        pre_rope_keys |= p.pre_rope_keys();
        batch.add(all, heads, batch.layout(p), p.window());  // the whole prompt, before eviction
        batch.add_elements(p, all, heads, all);
        batch.add_decoded_prompt(p, all);
        batch.add_columns(p.eviction ? p.eviction->columns().size() : 0, prompt);
      }
      // All rows in one pass.
      batch.add_prefill(PrefillCall::kRest, (1 + std::ssize(beside)) * prompt, prompt, attends,
                        pre_rope_keys);
      consider(batch.bytes(), batch.bytes());
    }
  }

 private:
  void add(BatchMemory& batch, const Unit& unit, std::size_t turn, HistoryAnswers answers,
           bool isolated, bool prefills) const {
    add_unit(batch, model_.checkpoint.config, lengths_(*unit.dialogue),
             plan_turn(unit, turn, answers, isolated, fidelity_), turn, prefills);
  }

  struct Scheduled {
    const Unit* unit;
    std::vector<std::int64_t> turns;  // the step at which each turn begins, and the last one ends

    std::size_t turn_at(std::int64_t step) const {
      return static_cast<std::size_t>(std::upper_bound(turns.begin(), turns.end(), step) -
                                      turns.begin()) -
             1;
    }
    bool begins_turn(std::int64_t step) const { return turns[turn_at(step)] == step; }
    std::int64_t distance() const {
      return static_cast<std::int64_t>(
          steps_between_units(static_cast<std::size_t>(turns.back() - turns.front())));
    }
  };

  Scheduled begin(const Unit& unit, std::int64_t step) const {
    Scheduled out{&unit, {step}};
    for (const std::int64_t answer : lengths_(*unit.dialogue).answers)
      out.turns.push_back(out.turns.back() + std::max<std::int64_t>(1, answer));
    return out;
  }

  static bool fits(std::span<const Scheduled> active, const Unit& next) {
    std::int64_t tokens = estimate_context_tokens(*next.dialogue);
    for (const Scheduled& u : active) tokens += estimate_context_tokens(*u.unit->dialogue);
    return active.size() < kMaxConcurrentUnits && tokens <= kMaxConcurrentTokens;
  }

  /// The batch at a step at which turns begin.
  BatchBytes together(std::span<const Scheduled> active, std::int64_t step,
                      HistoryAnswers answers) const {
    BatchMemory batch(model_, devices_);
    for (const Scheduled& u : active)
      add(batch, *u.unit, u.turn_at(step), answers, false, u.begins_turn(step));
    return batch.bytes();
  }

  void consider(const BatchBytes& agreeing, const BatchBytes& at_most) {
    agreeing_.at_least(agreeing);
    at_most_.at_least(at_most);
  }

  const ResolvedModel& model_;
  std::span<const Device> devices_;
  std::optional<Along> fidelity_;
  std::function<const PromptLengths&(const Dialogue&)> lengths_;
  BatchBytes agreeing_, at_most_;  // if answers agree, and if they differ
};

LargestBatch no_batch(const Plan& plan, std::size_t model, std::span<const Device> devices,
                      PlannedLengths& lengths) {
  return {plan.experiment.models[model], devices, plan.experiment.manifest.fidelity,
          [&lengths, model](const Dialogue& dialogue) -> const PromptLengths& {
            return lengths.of(model, dialogue);
          }};
}

}  // namespace

WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths, int workers) {
  LargestBatch largest = no_batch(plan, model, devices, lengths);
  const std::vector<const Unit*> units = plan.units_of(model);
  if (plan.experiment.manifest.isolated) {
    for (const Unit* unit : units) largest.consider_isolated(*unit);
  } else {
    // The workers take units from one list.
    const auto stride = static_cast<std::size_t>(std::max(1, workers));
    for (std::size_t worker = 0; worker < std::min(stride, units.size()); ++worker) {
      std::vector<const Unit*> taken;
      for (std::size_t i = worker; i < units.size(); i += stride) taken.push_back(units[i]);
      largest.consider_in_order(taken);
    }
  }
  for (const ProbeUnit* unit : plan.probe_units_of(model)) largest.consider_probes(*unit);
  return largest.bytes();
}

WorkerBytes unit_bytes(const Plan& plan, const Unit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths) {
  LargestBatch largest = no_batch(plan, unit.model, devices, lengths);
  const Unit* alone = &unit;
  if (plan.experiment.manifest.isolated) {
    largest.consider_isolated(unit);
  } else {
    largest.consider_in_order({&alone, 1});
  }
  return largest.bytes();
}

WorkerBytes unit_bytes(const Plan& plan, const ProbeUnit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths) {
  LargestBatch largest = no_batch(plan, unit.model, devices, lengths);
  largest.consider_probes(unit);
  return largest.bytes();
}

}  // namespace turnbench
