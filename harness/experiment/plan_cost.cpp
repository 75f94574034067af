#include "harness/experiment/plan_cost.h"

#include <algorithm>
#include <iterator>

#include "harness/experiment/plan_prefills.h"

namespace turnbench {
namespace {

/// Numbers of a unit's prefills.
struct Prefills {
  std::size_t from_first_token = 0;
  std::int64_t tokens = 0;
};
Prefills count(const std::vector<PlannedPrefill>& prefills) {
  Prefills out;
  for (const PlannedPrefill& prefill : prefills) {
    out.from_first_token += prefill.begin == 0;
    out.tokens += prefill.tokens();
  }
  return out;
}

/// Counts a unit that will fail, and keeps the reason of the first one.
void add_refusal(PlanCost& out, const std::string& refusal) {
  if (!refusal.empty() && out.refused_units++ == 0) out.refusal = refusal;
}

/// If fidelity is measured, every cell and full attention also decode a given answer.
void add_cost(PlanCost& out, const Plan& plan, const Unit& unit, const PromptLengths& lengths) {
  const ModelConfig& config = plan.experiment.models[unit.model].checkpoint.config;
  const Manifest& manifest = plan.experiment.manifest;
  const auto prefills_of = [&](const Unit& part) {
    return planned_prefills(part, lengths, manifest.isolated, manifest.fidelity);
  };
  const std::vector<PlannedPrefill> prefills = prefills_of(unit);
  const Prefills shared = count(prefills);
  out.shared_prefills += shared.from_first_token;
  out.prompt_tokens += shared.tokens;
  for (const PlannedPrefill& prefill : prefills) out.flops += prefill.flops(config);
  std::int64_t unshared_tokens = 0;
  for (const Unit& part : unit.split()) {
    const Prefills unshared = count(prefills_of(part));
    out.unshared_prefills += unshared.from_first_token;
    unshared_tokens += unshared.tokens;
  }
  out.unshared_prompt_tokens += unshared_tokens;
  for (const UnitCell& cell : unit.cells) {
    const bool dense = cell.history == History::kDense;
    out.max_new_tokens += dense ? lengths.answers.back() : lengths.total_answer_tokens();
  }
  if (manifest.fidelity)
    out.max_new_tokens += lengths.total_answer_tokens() * (std::ssize(unit.cells) + 1);
  out.longest_prompt = std::max(out.longest_prompt, lengths.prompts.back());
  const bool own_answers =
      lengths.prompts.size() > 1 &&
      std::any_of(unit.cells.begin(), unit.cells.end(),
                  [](const UnitCell& cell) { return cell.answers == Answers::kOwn; });
  out.omits_answers |= own_answers;
  out.expects_equal_answers |= own_answers && unshared_tokens > shared.tokens;
  add_refusal(out, lengths.refusal);
}

/// Probes prefill every turn from its first token in one pass.
void add_cost(PlanCost& out, const Plan& plan, const ProbeUnit& unit, PlannedLengths& planned) {
  const ModelConfig& config = plan.experiment.models[unit.model].checkpoint.config;
  std::string refusal;
  for (const Dialogue* dialogue : unit.dialogues) {
    const PromptLengths& lengths = planned.of(unit.model, *dialogue);
    if (refusal.empty()) refusal = lengths.refusal;
    const bool own = unit.answers == Answers::kOwn && dialogue->turns.size() > 1;
    const std::int64_t shared = probe_prefills(unit.cells, own);
    std::int64_t unshared = 0;
    for (const ProbeCell& cell : unit.cells) unshared += probe_prefills({cell}, own);
    if (required_input(unit.cells) == ProbeInfo::Input::kAnswer || own)
      out.max_new_tokens += lengths.total_answer_tokens() * shared;
    for (const std::int64_t prompt : lengths.prompts) {
      out.shared_prefills += static_cast<std::size_t>(shared);
      out.unshared_prefills += static_cast<std::size_t>(unshared);
      out.prompt_tokens += prompt * shared;
      out.unshared_prompt_tokens += prompt * unshared;
      out.flops += static_cast<double>(shared) * prefill_flops(config, prompt);
      if (shared > 0) out.longest_prompt = std::max(out.longest_prompt, prompt);
    }
  }
  add_refusal(out, refusal);
}

}  // namespace

PlanCost estimate_cost(const Plan& plan, std::span<const Device> devices, PlannedLengths& lengths,
                       std::span<const int> workers) {
  PlanCost out;
  out.cells = plan.cells.size();
  out.units = plan.unit_count();
  for (const Unit& unit : plan.units)
    add_cost(out, plan, unit, lengths.of(unit.model, *unit.dialogue));
  for (const ProbeUnit& unit : plan.probe_units) add_cost(out, plan, unit, lengths);
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
