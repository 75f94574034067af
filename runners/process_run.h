#pragma once

#include "runners/run_state.h"
#include "runners/runner.h"

namespace turnbench {

/// Runs a plan's units in worker processes.  A process that ends, or exceeds a unit's time limit,
/// costs the unit that caused it: its records state the reason, and the other units run in a new
/// process.  If several units ran in the process, each of them runs again alone, to find the cause.
/// Processes end with this one.  Only this process uses the store.
void run_in_processes(const Plan& plan, RunState& state, const RunOptions& options);

}  // namespace turnbench
