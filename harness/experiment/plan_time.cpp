#include "harness/experiment/plan_time.h"

#include <algorithm>
#include <optional>

#include "harness/experiment/plan_cost.h"

namespace turnbench {
namespace {

// Approximate share of the machine's peak that forward passes reach.
constexpr double kShareOfPeak = 0.5;

/// One dialogue in one cell of a unit.
struct TimedWork {
  double prefill_flops = 0;
  double shared_flops = 0;  ///< its share of the computation that the unit's cells share
  double tokens = 0;        ///< of answers, including those of fidelity
  double step_bytes = 0;    ///< bytes read per token: its share of a step of all cells
};

class TimeEstimate {
 public:
  TimeEstimate(const Plan& plan, const Speeds& speeds, PlannedLengths& lengths,
               const std::function<Ceilings()>& peak)
      : plan_(plan), speeds_(speeds), lengths_(lengths), peak_(peak) {
    for (const Cell& cell : plan.cells) cells_[cell.key] = &cell;
  }

  void add(const Unit& unit) {
    const ModelConfig& config = plan_.experiment.models[unit.model].checkpoint.config;
    const PromptLengths& lengths = lengths_.of(unit.model, *unit.dialogue);
    const std::int64_t prompt = lengths.prompts.back();
    std::map<std::string, std::size_t> sharing;  // number of cells by prefill key
    for (const UnitCell& cell : unit.cells) ++sharing[cell.method->prefill_key()];
    for (const UnitCell& cell : unit.cells) {
      const Cell& planned = *cells_.at(cell.key);
      const MethodSpeed* speed = speed_of(planned);
      TimedWork work;
      work.prefill_flops = prefill_flops(config, prompt);
      work.shared_flops =
          work.prefill_flops / static_cast<double>(sharing[cell.method->prefill_key()]);
      const bool dense = cell.history == History::kDense;
      const std::size_t first = dense ? lengths.answers.size() - 1 : 0;
      for (std::size_t t = first; t < lengths.answers.size(); ++t)
        work.tokens += expected_answer(speed, lengths.answers[t]);
      if (plan_.experiment.manifest.fidelity) work.tokens *= 2;
      work.step_bytes = step_bytes(unit.model, prompt) / static_cast<double>(unit.cells.size());
      add(work, speed);
    }
  }

  void add(const ProbeUnit& unit) {
    const ModelConfig& config = plan_.experiment.models[unit.model].checkpoint.config;
    for (const Dialogue* dialogue : unit.dialogues) {
      const PromptLengths& lengths = lengths_.of(unit.model, *dialogue);
      for (const ProbeCell& cell : unit.cells) {
        TimedWork work;
        work.prefill_flops = prefill_flops(config, lengths.prompts.back());
        for (const std::int64_t prompt : lengths.prompts)
          work.shared_flops += prefill_flops(config, prompt);
        work.shared_flops /= static_cast<double>(unit.cells.size());
        add(work, speed_of(*cells_.at(cell.key)));
      }
    }
  }

  const PlannedTime& time() const { return out_; }

 private:
  /// Times of the cell's method; else of the model's other methods, which `out_` then counts.
  const MethodSpeed* speed_of(const Cell& cell) {
    const MethodSpeed* own = speeds_.of(cell.model_hash, cell.method_canonical, cell.dataset_hash);
    const MethodSpeed* used = own != nullptr ? own : speeds_.of_model(cell.model_hash);
    ++(own != nullptr ? out_.timed : used != nullptr ? out_.like_others : out_.by_peak);
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

  void add(const TimedWork& work, const MethodSpeed* speed) {
    if (speed != nullptr) {
      out_.seconds += speed->prefill(work.prefill_flops) + speed->decode(work.tokens);
      return;
    }
    if (!ceilings_) ceilings_ = peak_();
    out_.seconds += (work.shared_flops / ceilings_->flops +
                     work.tokens * work.step_bytes / ceilings_->read_bytes) /
                    kShareOfPeak;
  }

  const Plan& plan_;
  const Speeds& speeds_;
  PlannedLengths& lengths_;
  const std::function<Ceilings()>& peak_;
  std::optional<Ceilings> ceilings_;
  std::map<std::string, const Cell*> cells_;
  PlannedTime out_;
};

}  // namespace

void MethodSpeed::add(const ModelConfig& config, const TimedDialogue& timed) {
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
  PlannedTime out;
  for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
    TimeEstimate estimate(plan, speeds, lengths, peak);
    for (const Unit* unit : plan.units_of(m)) estimate.add(*unit);
    for (const ProbeUnit* unit : plan.probe_units_of(m)) estimate.add(*unit);
    PlannedTime of_model = estimate.time();
    of_model.seconds /= std::max(1, workers[m]);
    out += of_model;
  }
  return out;
}

}  // namespace turnbench
