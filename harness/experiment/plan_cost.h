#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "harness/experiment/plan.h"

namespace turnbench {

/// Token counts of a dialogue for a model, by turn: the prompt before each answer (without earlier
/// answers), and the longest possible answer.
struct PromptLengths {
  std::vector<std::int64_t> prompts, answers;
  std::int64_t total_answer_tokens() const {
    return std::accumulate(answers.begin(), answers.end(), std::int64_t{0});
  }
};

/// Lengths of a plan's dialogues; each is rendered once and then cached.
class PlannedLengths {
 public:
  explicit PlannedLengths(const Plan& plan) : plan_(plan) {}
  const PromptLengths& of(std::size_t model, const Dialogue& dialogue);

 private:
  const Plan& plan_;
  std::map<std::pair<std::size_t, const Dialogue*>, PromptLengths> known_;
};

/// Bytes that a worker needs in addition to the weights, for its largest batch of a model's units:
/// keys and values, and the engine's scratch memory in each stage (one stage per device).  If
/// histories contain the methods' own answers, methods share the prefill only while their answers
/// agree.
struct WorkerBytes {
  std::size_t if_answers_agree = 0;   ///< all methods give the same answers
  std::size_t if_answers_differ = 0;  ///< no two methods give the same answer
};
WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths);

/// The cost of a plan, with the stages of each model on `devices`.
struct PlanCost {
  /// Bytes of one model's weights, which workers share, and of each worker.
  struct Memory {
    std::size_t weights = 0;
    WorkerBytes worker;
  };
  std::size_t cells = 0, units = 0, cell_dialogues = 0, shared_prefills = 0;
  std::int64_t prompt_tokens = 0;           ///< of all units, each computed once
  std::int64_t unshared_prompt_tokens = 0;  ///< if no prefill were shared
  std::int64_t max_new_tokens = 0;          ///< if all answers have their maximum length
  std::int64_t longest_prompt = 0;
  double flops = 0;
  std::vector<Memory> memory;  ///< for each model; models run one after another
};
PlanCost estimate_cost(const Plan& plan, std::span<const Device> devices);

}  // namespace turnbench
