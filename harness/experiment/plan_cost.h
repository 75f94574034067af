#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/experiment/plan_memory.h"

namespace turnbench {

/// The cost of a plan, with the stages of each model on `devices`.
struct PlanCost {
  /// Memory for one model, in bytes: weights, which workers share, and the needs of each worker.
  struct Memory {
    std::size_t weights = 0;
    WorkerBytes worker;
  };
  std::size_t cells = 0, units = 0;
  /// Prefills that start at the first token of a prompt, over all turns: as the cells of a unit
  /// share them, and if each cell ran alone.
  std::size_t shared_prefills = 0, unshared_prefills = 0;
  std::int64_t prompt_tokens = 0, unshared_prompt_tokens = 0;  ///< computed by all prefills
  std::int64_t max_new_tokens = 0;  ///< if all answers reach their maximum length
  std::int64_t longest_prompt = 0;
  /// Whether prompts contain earlier answers of the methods, which are not counted in their tokens.
  bool omits_answers = false;
  /// Whether prefills after the first turn are shared only while methods give equal answers.
  bool expects_equal_answers = false;
  std::size_t refused_units = 0;  ///< units whose dialogue a run refuses
  std::string refusal;            ///< of the first of them
  double flops = 0;
  std::vector<Memory> memory;  ///< for each model; models run one after another
};
/// `workers`: number of workers for each model, which share its units; empty: one each.  `lengths`:
/// the answers to count.
PlanCost estimate_cost(const Plan& plan, std::span<const Device> devices, PlannedLengths& lengths,
                       std::span<const int> workers = {});

}  // namespace turnbench
