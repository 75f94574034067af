#pragma once

#include <string>

#include "harness/experiment/experiment.h"

namespace turnbench {

/// The protocol card as JSON: everything that influences scores and is not a column of a cell
/// (model and tokenizer, template, stop tokens, truncation, lengths, decoding, dtypes, dialogues).
/// Equal cards mean equal conditions.
std::string protocol_card(const Experiment& experiment, const ResolvedModel& model,
                          const ResolvedDataset& dataset);

}  // namespace turnbench
