#pragma once

#include <cstddef>

#include "harness/experiment/batch_memory.h"
#include "harness/experiment/planned_turn.h"
#include "harness/experiment/prompt_lengths.h"

namespace turnbench {

/// Adds to a batch the memory of a unit when every branch has answered turn `turn`, and the passes
/// over the turn's prompt if it is being prefilled.  lengths: of the unit's dialogue.
void add_unit(BatchMemory& batch, const ModelConfig& config, const PromptLengths& lengths,
              const PlannedTurn& planned, std::size_t turn, bool prefills);

}  // namespace turnbench
