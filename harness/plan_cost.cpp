// What a plan would cost.

#include <algorithm>
#include <set>

#include "harness/plan.h"

namespace turnbench {
namespace {

/// Tokens of a dialogue: of each turn with what comes before it, and of answers at their longest.
struct Lengths {
  std::vector<std::int64_t> prompts;
  std::int64_t answers = 0;
};

Lengths lengths_of(const Plan& plan, const PlannedModel& model, const Dialogue& dialogue) {
  const Decoding decoding = plan.decoding(model);
  const PromptRenderer renderer = plan.renderer(model);
  const int turns = static_cast<int>(dialogue.turns.size());
  Lengths out;
  std::int64_t prompt = 0;
  for (int t = 0; t < turns; ++t) {
    prompt += static_cast<std::int64_t>(
        renderer.render(dialogue, t, decoding.max_prompt_tokens / turns).tokens.size());
    out.prompts.push_back(prompt);
    out.answers += answer_limit(decoding, dialogue.turns[static_cast<std::size_t>(t)]);
  }
  return out;
}

/// Adds the work of a prefill, done `times` times.
void add_prefill(PlanCost& out, const ModelConfig& c, std::int64_t prompt, std::int64_t times) {
  const double n = static_cast<double>(prompt);
  out.prompt_tokens += prompt * times;
  out.flops += static_cast<double>(times) *
               (c.linear_flops_per_token() * n + 2.0 * c.layers * c.heads * c.head_dim * n * n);
}

/// Makes room for `tokens` cached tokens, beside the weights and a pass of `rows` rows.
void add_memory(PlanCost& out, const PlannedModel& model, std::int64_t tokens, std::int64_t rows) {
  const ModelConfig& c = model.checkpoint.config;
  const std::size_t kv = static_cast<std::size_t>(tokens) *
                         static_cast<std::size_t>(2 * c.layers * c.kv_heads * c.head_dim) *
                         size_of(model.entry.kv_dtype);
  const std::size_t weights = static_cast<std::size_t>(c.parameters()) * size_of(model.dtype);
  const std::size_t workspace = static_cast<std::size_t>(rows) *
                                static_cast<std::size_t>(c.hidden + 4 * c.heads * c.head_dim) *
                                sizeof(float);
  out.memory_bytes = std::max(out.memory_bytes, kv + weights + workspace);
}

void add_cost(PlanCost& out, const Plan& plan, const Plan::Unit& unit) {
  const PlannedModel& model = plan.models[unit.model];
  const Lengths lengths = lengths_of(plan, model, *unit.dialogue);
  const std::int64_t prompt = lengths.prompts.back();
  std::set<std::string> prefills;
  for (const UnitCell& cell : unit.cells) prefills.insert(cell.method->prefill_key());
  const auto cells = static_cast<std::int64_t>(unit.cells.size()),
             shared = static_cast<std::int64_t>(prefills.size());
  out.cell_dialogues += unit.cells.size();
  out.shared_prefills += prefills.size();
  out.unshared_tokens += prompt * cells;
  out.max_new_tokens += lengths.answers * cells;
  out.longest_prompt = std::max(out.longest_prompt, prompt);
  add_prefill(out, model.checkpoint.config, prompt, shared);
  // Trunks hold everything; at worst every cell does too.
  add_memory(out, model, (prompt + lengths.answers) * (shared + cells),
             std::min<std::int64_t>(prompt, 8192));
}

/// Every turn is prefilled from its first token, in one pass; probes of the text alone need none.
void add_cost(PlanCost& out, const Plan& plan, const Plan::Probing& probing) {
  const PlannedModel& model = plan.models[probing.model];
  auto sees = ProbeInfo::Sees::kText;
  for (const ProbeCell& cell : probing.cells) sees = std::max(sees, cell.probe->info().sees);
  for (const auto& dialogue : probing.dialogues) {
    const Lengths lengths = lengths_of(plan, model, *dialogue);
    const bool own = probing.answers == Answers::kOwn && dialogue->turns.size() > 1;
    out.cell_dialogues += probing.cells.size();
    if (sees == ProbeInfo::Sees::kText && !own) continue;
    out.shared_prefills += 1;
    if (sees == ProbeInfo::Sees::kAnswer || own) out.max_new_tokens += lengths.answers;
    for (std::int64_t prompt : lengths.prompts) {
      add_prefill(out, model.checkpoint.config, prompt, 1);
      out.unshared_tokens += prompt * static_cast<std::int64_t>(probing.cells.size());
      out.longest_prompt = std::max(out.longest_prompt, prompt);
    }
    add_memory(out, model, lengths.prompts.back() + lengths.answers, lengths.prompts.back());
  }
}

}  // namespace

PlanCost estimate_cost(const Plan& plan) {
  PlanCost out;
  out.cells = plan.cells.size();
  out.units = plan.unit_count();
  for (const Plan::Unit& unit : plan.units) add_cost(out, plan, unit);
  for (const Plan::Probing& probing : plan.probings) add_cost(out, plan, probing);
  return out;
}

}  // namespace turnbench
