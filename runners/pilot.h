#pragma once

#include <cstddef>
#include <vector>

#include "harness/experiment/plan_time.h"
#include "runners/runner.h"

namespace turnbench {

/// Times of a few dialogues that were run to estimate a plan's time.
struct Pilot {
  std::size_t units = 0;  ///< units of the plan; 0: only full attention on a short prompt was timed
  std::vector<TimedDialogue> times;
};

/// Runs a few units of a model of a plan, for at most a few seconds, and stores nothing: first
/// units with methods whose speed is not in `known`.  If a single unit would take too long, times
/// full attention on a short prompt; times nothing if the model is too large even for that.
Pilot run_pilot(const Plan& plan, std::size_t model, const Speeds& known, PlannedLengths& lengths,
                const RunOptions& options);

}  // namespace turnbench
