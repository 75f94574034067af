#pragma once

#include <cstddef>
#include <vector>

#include "methods/actions/action.h"

namespace turnbench {

/// Shares of the earlier rounds in the attention of a turn's tokens: [layers][rounds].
struct RoundShares {
  std::vector<std::vector<double>> question;  ///< over all prompt tokens of the turn
  std::vector<std::vector<double>> last;      ///< for the last prompt token
  std::vector<std::vector<double>> answer;    ///< over the answer's tokens; empty without an answer
  /// Layers in which the last prompt token has no attention to earlier rounds in float32: its
  /// shares are then equal.
  std::size_t without_attention = 0;
};

/// Full attention of a dialogue's last turn to the earlier rounds.  The turn's answer may be empty.
RoundShares measure_round_shares(Engine& engine, const TokenizedDialogue& dialogue);

}  // namespace turnbench
