#pragma once

#include <string>

#include "harness/experiment/experiment.h"

namespace turnbench {

/// Everything that moves a score and is not in the cell's own columns, as JSON: model and
/// tokenizer, template, stop tokens, truncation, lengths, decoding, dtypes, dialogues.  Equal cards
/// mean equal conditions.
std::string protocol_card(const Experiment& experiment, const ResolvedModel& model,
                          const ResolvedDataset& dataset);

}  // namespace turnbench
