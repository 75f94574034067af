#include "harness/experiment/plan_cost.h"

#include <algorithm>
#include <set>

#include "harness/run/sharing.h"

namespace turnbench {
namespace {

/// Adds the cost of `times` prefills.
void add_prefill(PlanCost& out, const ModelConfig& c, std::int64_t prompt, std::int64_t times) {
  out.prompt_tokens += prompt * times;
  out.flops += static_cast<double>(times) * prefill_flops(c, prompt);
}

/// If fidelity is measured, every cell and full attention also decode a given answer.
void add_cost(PlanCost& out, const ModelConfig& model, const Unit& unit,
              const PromptLengths& lengths, bool fidelity) {
  const std::int64_t prompt = lengths.prompts.back();
  std::set<std::string> prefills;
  if (fidelity) prefills.insert(kDensePrefill);
  std::int64_t answers = 0;
  for (const UnitCell& cell : unit.cells) {
    const bool dense = cell.history == History::kDense;
    prefills.insert(dense ? kDensePrefill : cell.method->prefill_key());
    answers += dense ? lengths.answers.back() : lengths.total_answer_tokens();
  }
  const auto cells = static_cast<std::int64_t>(unit.cells.size()),
             shared = static_cast<std::int64_t>(prefills.size());
  out.cell_dialogues += unit.cells.size();
  out.shared_prefills += prefills.size();
  out.unshared_prompt_tokens += prompt * cells;
  out.max_new_tokens += answers + (fidelity ? lengths.total_answer_tokens() * (cells + 1) : 0);
  out.longest_prompt = std::max(out.longest_prompt, prompt);
  add_prefill(out, model, prompt, shared);
}

/// Full attention, and each method that probes name, prefill every turn from its first token in one
/// pass; probes of the text alone need no prefill.
void add_cost(PlanCost& out, const ModelConfig& model, const ProbeUnit& unit,
              PlannedLengths& planned) {
  const ProbeInfo::Input input = required_input(unit.cells);
  for (const Dialogue* dialogue : unit.dialogues) {
    const PromptLengths& lengths = planned.of(unit.model, *dialogue);
    const bool own = unit.answers == Answers::kOwn && dialogue->turns.size() > 1;
    out.cell_dialogues += unit.cells.size();
    if (input == ProbeInfo::Input::kText && !own) continue;
    std::ptrdiff_t prefills = 1;
    for (const auto& [canonical, method] : methods_beside(unit.cells))
      prefills += divides_prompts(*method) ? 2 : 1;
    out.shared_prefills += static_cast<std::size_t>(prefills);
    if (input == ProbeInfo::Input::kAnswer || own)
      out.max_new_tokens += lengths.total_answer_tokens() * prefills;
    for (std::int64_t prompt : lengths.prompts) {
      add_prefill(out, model, prompt, prefills);
      out.unshared_prompt_tokens += prompt * static_cast<std::int64_t>(unit.cells.size());
      out.longest_prompt = std::max(out.longest_prompt, prompt);
    }
  }
}

}  // namespace

double prefill_flops(const ModelConfig& c, std::int64_t prompt) {
  const double n = static_cast<double>(prompt);
  return c.linear_flops_per_token() * n + 2.0 * c.layers * c.heads * c.head_dim * n * n;
}

PlanCost estimate_cost(const Plan& plan, std::span<const Device> devices, PlannedLengths& lengths,
                       std::span<const int> workers) {
  PlanCost out;
  out.cells = plan.cells.size();
  out.units = plan.unit_count();
  for (const Unit& unit : plan.units) {
    add_cost(out, plan.experiment.models[unit.model].checkpoint.config, unit,
             lengths.of(unit.model, *unit.dialogue), plan.experiment.manifest.fidelity.has_value());
  }
  for (const ProbeUnit& unit : plan.probe_units)
    add_cost(out, plan.experiment.models[unit.model].checkpoint.config, unit, lengths);
  for (std::size_t m = 0; m < plan.experiment.models.size(); ++m) {
    const ResolvedModel& model = plan.experiment.models[m];
    model.checkpoint.stages(devices.size());  // rejects too many stages
    out.memory.push_back(
        {static_cast<std::size_t>(model.checkpoint.config.parameter_count(devices.size())) *
             size_of(model.dtype),
         worker_bytes(plan, m, devices, lengths, workers.empty() ? 1 : workers[m])});
  }
  return out;
}

}  // namespace turnbench
