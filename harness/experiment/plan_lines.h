#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/experiment/plan.h"
#include "harness/experiment/plan_time.h"
#include "harness/experiment/prompt_lengths.h"
#include "inference/devices/devices.h"

namespace turnbench {

/// The beginning of such lines.
inline constexpr std::string_view kPlanStart = R"({"key":)";

/// The units of a complete plan as lines of JSON, one for each unit, in the plan's order.
/// `missing`: the work whose results are not stored.  `speeds`: of this machine.
std::string plan_lines(const Plan& plan, const Work& missing, const Speeds& speeds,
                       PlannedLengths& lengths, std::span<const Device> devices);

}  // namespace turnbench
