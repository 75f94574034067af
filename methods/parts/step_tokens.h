#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"
#include "methods/parts/budget_parameters.h"

namespace turnbench {

/// Tokens of an answer that can be pinned before a new working set is needed.
constexpr int kAnswerRoom = 1024;

/// The tokens that a step reads in several layers, given as positions, because after evictions a
/// position may have different slots in different sets.
struct StepTokens {
  std::int32_t current = -1;  ///< position of the step's token
  /// Ascending, the current one last: one list for all sets of a layer, one per KV head, or one per
  /// query head if each has its own set.
  std::vector<std::vector<std::int32_t>> positions;
};

/// For each row of weights, [tokens] in the backend's memory, the indices of the `budget` largest
/// ones in ascending order.  The first `sinks` tokens and the `newest` last ones are always
/// included.  Ties go to the earlier token.
std::vector<std::vector<std::int32_t>> best_tokens(Backend& backend,
                                                   std::span<const std::span<const float>> rows,
                                                   int budget, int sinks = 0, int newest = 1);

/// The selection of a layer: those of `tokens` that it still has; all tokens if its sets have at
/// most `budget` tokens.
/// @throws Error (runtime) if the tokens were selected for another step than the view's.
Selection read_in_layer(const LayerView& view, const StepTokens& tokens, int budget);

/// The needs of steps that read `budget` tokens per list, including the current one, and keep the
/// tokens of the previous step on the device.  lists_per_set: lists that select from the same set.
DeviceNeeds needs_of_steps(const PromptSize& prompt, int budget, int lists_per_set = 1);

/// The budget of a step: `tokens`, but at least the sinks and the current token, which are always
/// read.
int step_budget(int tokens, int sinks);

/// Parameter "sinks".
ParameterInfo sinks_parameter();

}  // namespace turnbench
