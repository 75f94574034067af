#pragma once

#include "inference/model/model_config.h"
#include "methods/method.h"

namespace turnbench {

/// Checks the settings of a method against a model before anything runs: weights of layers,
/// numbers of layers and of a head's dimensions, and what the method itself demands.  A default is
/// never too large: methods take less of a small model.
/// @throws Error (input) naming the method, the parameter and what the model has.
void check_model(const Method& method, const ModelConfig& config);

}  // namespace turnbench
