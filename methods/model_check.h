#pragma once

#include "inference/model/model_config.h"
#include "methods/method.h"

namespace turnbench {

/// Checks the settings of a method against a model before a run: weights of layers, numbers of
/// layers and of head dimensions, and the method's own checks (MethodInfo::check_model).  Defaults
/// are never too large: methods clamp them to the size of a small model.
/// @throws Error (input) naming the method, the parameter and the model's value.
void check_model(const Method& method, const ModelConfig& config);

}  // namespace turnbench
