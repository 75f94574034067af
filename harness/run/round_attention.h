#pragma once

#include <cstddef>
#include <vector>

#include "harness/run/prompt.h"
#include "inference/engine/engine.h"

namespace turnbench {

/// Shares of the earlier rounds in the attention of a turn's tokens: [layers][rounds].
struct RoundAttention {
  std::vector<std::vector<double>> question;  ///< over all prompt tokens of the turn
  std::vector<std::vector<double>> last;      ///< for the last prompt token
  std::vector<std::vector<double>> answer;    ///< over the answer's tokens; empty without an answer
};

/// Full attention of a dialogue's last turn to the earlier rounds.  `dialogue` ends with the turn's
/// answer, which may be empty. history_tokens: number of tokens before the turn; prompt_tokens:
/// number of tokens before its answer.
RoundAttention measure_round_attention(Engine& engine, const Prompt& dialogue,
                                       std::size_t history_tokens, std::size_t prompt_tokens);

}  // namespace turnbench
