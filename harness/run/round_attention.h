#pragma once

#include <cstddef>
#include <vector>

#include "harness/run/prompt.h"
#include "inference/engine/engine.h"

namespace turnbench {

/// Shares of the earlier rounds in the attention of a turn's tokens: [layers][rounds].
struct RoundAttention {
  std::vector<std::vector<double>> question;  ///< of all tokens in front of the answer
  std::vector<std::vector<double>> last;      ///< of the last one of them
  std::vector<std::vector<double>> answer;    ///< of the answer; empty without one
};

/// Full attention of a dialogue's last turn to the rounds before it.  `dialogue` ends with the
/// turn's answer, which may be empty; history_tokens: those before the turn; prompt_tokens: those
/// before its answer.
RoundAttention measure_round_attention(Engine& engine, const Prompt& dialogue,
                                       std::size_t history_tokens, std::size_t prompt_tokens);

}  // namespace turnbench
