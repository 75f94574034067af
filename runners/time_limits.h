#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "harness/experiment/plan.h"
#include "harness/experiment/plan_memory.h"
#include "runners/runner.h"
#include "runners/worker_process.h"

namespace turnbench {

/// Time limits of units in worker processes: `least_time_limit`, and `time_tolerance` times the
/// time that the unit takes at the speed of the slowest unit that has ended lately.  Costs of units
/// are only estimated when a unit exceeds the least limit, because most units never do.
class TimeLimits {
 public:
  TimeLimits(const Plan& plan, const RunOptions& options, PlannedLengths& lengths)
      : plan_(plan), options_(options), lengths_(lengths) {}

  /// Notes that a unit has ended.
  void add_ended(HeldUnit unit);
  /// Seconds after which a process that has these units must have ended one; nullopt while all of
  /// them are within their limits.
  std::optional<double> exceeded(std::map<std::string, HeldUnit>& held);

 private:
  struct Ended {
    HeldUnit unit;
    double seconds;
  };

  double cost_of(const HeldUnit& held);
  double limit_of(HeldUnit& held);
  /// Seconds for 10^6 operations.
  double slowest_speed();

  const Plan& plan_;
  const RunOptions& options_;
  PlannedLengths& lengths_;
  std::deque<Ended> ended_;  ///< lately
};

}  // namespace turnbench
