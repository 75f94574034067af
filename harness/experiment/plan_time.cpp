#include "harness/experiment/plan_time.h"

#include <algorithm>
#include <optional>

#include "harness/experiment/plan_prefills.h"

namespace turnbench {
namespace {

// Approximate share of the machine's peak that forward passes reach.
constexpr double kShareOfPeak = 0.5;

/// One dialogue in one cell of a unit.
struct TimedWork {
  double prefill_flops = 0;
  double shared_flops = 0;  ///< its share of the computation that the unit's cells share
  double tokens = 0;        ///< of answers, including those of fidelity
  double cells = 1;         ///< that share a step
  double step_bytes = 0;    ///< bytes read per step of all cells
};

/// Estimates the times of a plan's units one by one.
class TimeEstimate {
 public:
  TimeEstimate(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths,
               const std::function<Ceilings()>& peak)
      : plan_(plan), speeds_(speeds), lengths_(lengths), peak_(peak) {
    for (const Cell& cell : plan.cells) cells_[cell.key] = &cell;
  }

  PlannedTime of(const Unit& unit) {
    const PromptLengths& lengths = lengths_.of(unit.model, *unit.dialogue);
    const std::vector<double> flops = flops_by_cell(unit, lengths);
    PlannedTime out;
    for (std::size_t i = 0; i < unit.cells.size(); ++i) {
      const UnitCell& cell = unit.cells[i];
      const MethodSpeed* speed = speed_of(*cells_.at(cell.key), out);
      TimedWork work;
      work.prefill_flops = prefill_flops(config_of(unit.model), lengths.prompts.back());
      work.shared_flops = flops[i];
      const bool dense = cell.history == History::kDense;
      const std::size_t first = dense ? lengths.answers.size() - 1 : 0;
      for (std::size_t t = first; t < lengths.answers.size(); ++t)
        work.tokens += expected_answer(speed, lengths.answers[t]);
      if (plan_.experiment.manifest.fidelity) work.tokens *= 2;
      if (!plan_.experiment.manifest.isolated) work.cells = static_cast<double>(unit.cells.size());
      work.step_bytes = step_bytes(unit.model, lengths.prompts.back());
      out.seconds += seconds(work, speed, config_of(unit.model));
    }
    return out;
  }

  PlannedTime of(const ProbeUnit& unit) {
    const ModelConfig& config = config_of(unit.model);
    PlannedTime out;
    for (const Dialogue* dialogue : unit.dialogues) {
      const PromptLengths& lengths = lengths_.of(unit.model, *dialogue);
      for (const ProbeCell& cell : unit.cells) {
        TimedWork work;
        work.prefill_flops = prefill_flops(config, lengths.prompts.back());
        for (const std::int64_t prompt : lengths.prompts)
          work.shared_flops += prefill_flops(config, prompt);
        work.shared_flops /= static_cast<double>(unit.cells.size());
        out.seconds += seconds(work, speed_of(*cells_.at(cell.key), out), config);
      }
    }
    return out;
  }

 private:
  const ModelConfig& config_of(std::size_t model) const {
    return plan_.experiment.models[model].checkpoint.config;
  }

  /// Each cell's share of the operations of the prefills that it uses.  All cells share those that
  /// only the reference of fidelity uses.
  std::vector<double> flops_by_cell(const Unit& unit, const PromptLengths& lengths) const {
    const Manifest& manifest = plan_.experiment.manifest;
    std::vector<double> out(unit.cells.size(), 0.0);
    for (const PlannedPrefill& prefill :
         planned_prefills(unit, lengths, manifest.isolated, manifest.fidelity)) {
      const double flops = prefill.flops(config_of(unit.model));
      for (const std::size_t cell : prefill.cells)
        out[cell] += flops / static_cast<double>(prefill.cells.size());
      if (!prefill.cells.empty()) continue;
      for (double& of_cell : out) of_cell += flops / static_cast<double>(out.size());
    }
    return out;
  }

  /// Times of the cell's method; else of the model's other methods.  `out` counts which it is.
  const MethodSpeed* speed_of(const Cell& cell, PlannedTime& out) const {
    const MethodSpeed* own = speeds_.of(cell.model_hash, cell.method_canonical, cell.dataset_hash);
    const MethodSpeed* used = own != nullptr ? own : speeds_.of_model(cell.model_hash);
    ++(own != nullptr ? out.timed : used != nullptr ? out.like_others : out.by_peak);
    return used;
  }

  double expected_answer(const MethodSpeed* speed, std::int64_t limit) const {
    const bool known = speed != nullptr && !plan_.experiment.manifest.isolated;
    return known ? speed->expected_answer(limit) : static_cast<double>(limit);
  }

  /// Bytes of weights, keys and values that a decode step reads.
  double step_bytes(std::size_t model, std::int64_t prompt) const {
    const ResolvedModel& m = plan_.experiment.models[model];
    const ModelConfig& c = m.checkpoint.config;
    return static_cast<double>(c.parameter_count()) * static_cast<double>(size_of(m.dtype)) +
           2.0 * c.layers * c.kv_heads * c.head_dim * static_cast<double>(prompt) *
               static_cast<double>(size_of(m.entry.kv_dtype));
  }

  double seconds(const TimedWork& work, const MethodSpeed* speed, const ModelConfig& config) {
    if (speed != nullptr && speed->single) {
      return speed->prefill(work.shared_flops) +
             work.tokens * speed->shared_step(config, work.cells);
    }
    if (speed != nullptr) return speed->prefill(work.prefill_flops) + speed->decode(work.tokens);
    if (!ceilings_) ceilings_ = peak_();
    return (work.shared_flops / ceilings_->flops +
            work.tokens * work.step_bytes / work.cells / ceilings_->read_bytes) /
           kShareOfPeak;
  }

  const Plan& plan_;
  const Speeds& speeds_;
  PlannedLengths& lengths_;
  const std::function<Ceilings()>& peak_;
  std::optional<Ceilings> ceilings_;
  std::map<std::string, const Cell*> cells_;
};

}  // namespace

void MethodSpeed::add(const ModelConfig& config, const TimedDialogue& timed) {
  single = single && timed.single;
  prefill_flops += turnbench::prefill_flops(config, timed.prompt_tokens);
  prefill_seconds += timed.prefill_seconds;
  decode_seconds += timed.decode_seconds;
  ++dialogues;
  answers += timed.answers;
  cut_answers += timed.cut_answers;
  answer_tokens += timed.answer_tokens;
  ended_tokens += timed.ended_tokens;
}

double MethodSpeed::prefill(double flops) const {
  return prefill_flops > 0 ? prefill_seconds / prefill_flops * flops : 0;
}

double MethodSpeed::decode(double tokens) const {
  return answer_tokens > 0 ? decode_seconds / static_cast<double>(answer_tokens) * tokens : 0;
}

double MethodSpeed::shared_step(const ModelConfig& c, double cells) const {
  const double head = 2.0 * c.hidden * c.vocab;
  return std::max(decode(1) / cells, prefill(c.linear_flops_per_token() + head));
}

double MethodSpeed::expected_answer(std::int64_t limit) const {
  const auto most = static_cast<double>(limit);
  if (answers == 0) return most;
  const double all = static_cast<double>(answers),
               mean =
                   (static_cast<double>(ended_tokens) + static_cast<double>(cut_answers) * most) /
                   all;
  return std::min(mean, most);
}

void Speeds::add(const ModelConfig& config, const TimedDialogue& timed) {
  OfModel& model = models_[timed.model_hash];
  OfMethod& method = model.by_method[timed.method];
  model.all.add(config, timed);
  method.all.add(config, timed);
  method.by_dataset[timed.dataset_hash].add(config, timed);
}

const MethodSpeed* Speeds::of(const std::string& model_hash, const std::string& method,
                              const std::string& dataset_hash) const {
  const auto model = models_.find(model_hash);
  if (model == models_.end()) return nullptr;
  const auto found = model->second.by_method.find(method);
  if (found == model->second.by_method.end()) return nullptr;
  const auto dataset = found->second.by_dataset.find(dataset_hash);
  return dataset != found->second.by_dataset.end() ? &dataset->second : &found->second.all;
}

const MethodSpeed* Speeds::of_model(const std::string& model_hash) const {
  const auto model = models_.find(model_hash);
  return model == models_.end() ? nullptr : &model->second.all;
}

PlannedTime& PlannedTime::operator+=(const PlannedTime& other) {
  seconds += other.seconds;
  timed += other.timed;
  like_others += other.like_others;
  by_peak += other.by_peak;
  return *this;
}

PlannedTime estimate_time(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths,
                          std::span<const int> workers, const std::function<Ceilings()>& peak) {
  TimeEstimate estimate(plan, speeds, lengths, peak);
  PlannedTime out;
  for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
    PlannedTime of_model;
    for (const Unit* unit : plan.units_of(m)) of_model += estimate.of(*unit);
    for (const ProbeUnit* unit : plan.probe_units_of(m)) of_model += estimate.of(*unit);
    of_model.seconds /= std::max(1, workers[m]);
    out += of_model;
  }
  return out;
}

UnitTimes estimate_unit_times(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths) {
  // The seconds of units without times are not used.
  const std::function<Ceilings()> unknown = [] { return Ceilings{1, 1}; };
  TimeEstimate estimate(plan, speeds, lengths, unknown);
  UnitTimes out;
  const auto known = [](const PlannedTime& time) {
    return time.by_peak == 0 ? std::optional(time.seconds) : std::nullopt;
  };
  for (const Unit& unit : plan.units) out.units.push_back(known(estimate.of(unit)));
  for (const ProbeUnit& unit : plan.probe_units)
    out.probe_units.push_back(known(estimate.of(unit)));
  return out;
}

}  // namespace turnbench
