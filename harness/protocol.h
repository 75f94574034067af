#pragma once

#include <string>

#include "harness/plan.h"

namespace turnbench {

/// Everything that moves a score and is not in the cell's own columns, as JSON: model and
/// tokenizer, template, stop tokens, truncation, lengths, decoding, dtypes, dialogues.  Equal cards
/// mean equal conditions.
std::string protocol_card(const Plan& plan, const PlannedModel& model,
                          const PlannedDataset& dataset);

}  // namespace turnbench
