#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harness/experiment/plan.h"

namespace turnbench {

/// Token counts of a dialogue for a model, by turn: the prompt before each answer (with earlier
/// answers if all cells continue from gold answers, otherwise without them), its part from the
/// turn's question on, and the longest possible answer.
struct PromptLengths {
  std::vector<std::int64_t> prompts, questions, answers;
  /// Of each turn: the part of its prompt that is the earlier turn's answer, if it is counted.
  std::vector<std::int64_t> earlier_answers;
  std::string refusal;  ///< why a run refuses the dialogue; empty if it does not
  std::int64_t total_answer_tokens() const {
    return std::accumulate(answers.begin(), answers.end(), std::int64_t{0});
  }
};

/// Lengths of a plan's dialogues; each is rendered once and then cached.
class PlannedLengths {
 public:
  explicit PlannedLengths(const Plan& plan) : plan_(plan) {}
  const PromptLengths& of(std::size_t model, const Dialogue& dialogue);
  /// The same prompts with answers of `expected(model, limit)` tokens.
  PlannedLengths with_answers(
      const std::function<std::int64_t(std::size_t, std::int64_t)>& expected) const;

 private:
  const Plan& plan_;
  std::map<std::pair<std::size_t, const Dialogue*>, PromptLengths> known_;
};

}  // namespace turnbench
