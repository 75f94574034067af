#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "harness/experiment/plan.h"

namespace turnbench {

/// Tokens of a dialogue for a model, turn by turn: what stands before each answer, without the
/// answers themselves, and answers at their longest.
struct PromptLengths {
  std::vector<std::int64_t> prompts, answers;
  std::int64_t all_answers() const {
    return std::accumulate(answers.begin(), answers.end(), std::int64_t{0});
  }
};

/// Lengths of a plan's dialogues, each rendered once.
class PlannedLengths {
 public:
  explicit PlannedLengths(const Plan& plan) : plan_(plan) {}
  const PromptLengths& of(std::size_t model, const Dialogue& dialogue);

 private:
  const Plan& plan_;
  std::map<std::pair<std::size_t, const Dialogue*>, PromptLengths> known_;
};

/// Bytes that a worker needs beside the weights for its largest batch of a model's units: keys and
/// values, and the engine's scratch in each stage, one on each of `devices`.  Methods whose own
/// answers stand in the history share its prefill as long as their answers agree.
struct WorkerBytes {
  std::size_t agreeing = 0;  ///< if all answers agree
  std::size_t at_most = 0;   ///< if none do
};
WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths);

/// What a plan would cost with each model on `devices`, a stage on each.
struct PlanCost {
  /// Bytes of one model, which workers share, and of each worker.
  struct Memory {
    std::size_t weights = 0;
    WorkerBytes worker;
  };
  std::size_t cells = 0, units = 0, cell_dialogues = 0, shared_prefills = 0;
  std::int64_t prompt_tokens = 0;    ///< of all units, computed once each
  std::int64_t unshared_tokens = 0;  ///< if every cell computed its own
  std::int64_t max_new_tokens = 0;   ///< answers at their longest
  std::int64_t longest_prompt = 0;
  double flops = 0;
  std::vector<Memory> memory;  ///< of each model; they run one after the other
};
PlanCost estimate_cost(const Plan& plan, std::span<const Device> devices);

}  // namespace turnbench
