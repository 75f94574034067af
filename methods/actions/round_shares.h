#pragma once

#include <vector>

#include "methods/actions/action.h"

namespace turnbench {

/// Shares of the earlier rounds in the attention of a turn's tokens: [layers][rounds].
struct RoundShares {
  std::vector<std::vector<double>> question;  ///< over all prompt tokens of the turn
  std::vector<std::vector<double>> last;      ///< for the last prompt token
  std::vector<std::vector<double>> answer;    ///< over the answer's tokens; empty without an answer
};

/// Full attention of a dialogue's last turn to the earlier rounds.  The turn's answer may be empty.
RoundShares measure_round_shares(Engine& engine, const TokenizedDialogue& dialogue);

}  // namespace turnbench
