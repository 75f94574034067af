#pragma once

#include <memory>

#include "methods/parts/window_settings.h"

namespace turnbench {

/// SnapKV with the budgets of `settings`: every set of a layer keeps that layer's budget.
std::unique_ptr<EvictionPolicy> make_snapkv(const WindowSettings& settings);

}  // namespace turnbench
