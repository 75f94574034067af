#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"
#include "methods/method.h"

namespace turnbench {

/// The tokens that a step reads in several layers, as positions, because what an eviction leaves of
/// a position has another slot in each set.
struct StepTokens {
  std::int32_t current = -1;  ///< position of the step's token
  /// Ascending, the current one last: one list for all sets of a layer, one for each KV head, or
  /// one for each query head if each has a set of its own.
  std::vector<std::vector<std::int32_t>> positions;
};

/// For each row of weights, [tokens] in the backend's memory, the `budget` greatest in ascending
/// order, among which the first `sinks` ones and the last one, the current token's, always are; of
/// equal ones the earlier wins.
std::vector<std::vector<std::int32_t>> best_tokens(Backend& backend,
                                                   std::span<const std::span<const float>> rows,
                                                   int budget, int sinks = 0);

/// What a layer reads of them: the tokens that it still has.  All if its sets have no more than
/// `budget` tokens.
/// @throws Error (runtime) if the tokens were chosen for another step than the view's.
Selection read_in_layer(const LayerView& view, const StepTokens& tokens, int budget);

/// What steps need that read `budget` tokens of each list, with the current one, and keep what the
/// previous step read.  lists_per_set: lists that select from the same set.
DeviceNeeds needs_of_steps(const PromptSize& prompt, int budget, int lists_per_set = 1);

/// At least the sinks and the current token, which are read in any case.
int step_budget(int tokens, int sinks);

/// Parameter "sinks", and its value; refuses a budget that they fill.
ParameterInfo sinks_parameter();
int sinks_of_steps(std::string_view method, const Parameters& parameters);

}  // namespace turnbench
