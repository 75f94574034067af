#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runners/slurm.h"

namespace turnbench {

/// The state of a shard, by the last copy of its store and the state that its task wrote.
struct SlurmShard {
  enum class State {
    kDone,
    kFailed,   ///< has all results, and some failed
    kRunning,  ///< a task runs
    kMissing   ///< lacks results, and no task runs
  };
  int shard = 1;
  State state = State::kMissing;
  bool has_store = false;
  std::size_t units = 0, done = 0, failed = 0;  ///< units: 0 if there is no store yet
  std::string job, host;                        ///< of a running task
  std::optional<std::int64_t> exit_code;        ///< of the last task that ended
  std::string damage;  ///< why its store cannot be read, which then counts as missing

  std::size_t missing() const { return units - done - failed; }
};
std::string_view name_of(SlurmShard::State state);

struct SlurmProgress {
  std::vector<SlurmShard> shards;
  std::size_t units = 0, done = 0, failed = 0;  ///< of the sweep
  /// Estimated from the rates of all runs and the number of running tasks; nullopt if no unit has
  /// been run.
  std::optional<double> seconds_left;

  std::size_t missing() const { return units - done - failed; }
  std::vector<int> in_state(SlurmShard::State state) const;
};

/// The progress of a sweep, also while its tasks run.  `now`: seconds since the epoch.
/// `tasks_run`: false if it is known that no task runs; else the ages of their states tell.
SlurmProgress slurm_progress(const SlurmSweep& sweep, std::int64_t now, bool tasks_run);

}  // namespace turnbench
