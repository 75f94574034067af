#pragma once

#include <cstddef>
#include <span>

#include "harness/experiment/plan.h"
#include "harness/experiment/prompt_lengths.h"
#include "inference/devices/devices.h"

namespace turnbench {

/// Bytes that a worker needs in addition to the weights, for its largest batch of a model's units:
/// keys and values, and the engine's scratch memory in each stage (one stage per device).  If
/// histories contain the methods' own answers, methods share the prefill only while their answers
/// agree.  The units are shared by `workers`.
struct WorkerBytes {
  std::size_t if_answers_agree = 0;   ///< all methods give the same answers
  std::size_t if_answers_differ = 0;  ///< no two methods give the same answer
};
WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths, int workers = 1);
/// The same for a worker that runs only this unit.
WorkerBytes unit_bytes(const Plan& plan, const Unit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths);
WorkerBytes unit_bytes(const Plan& plan, const ProbeUnit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths);

}  // namespace turnbench
