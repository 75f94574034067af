#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/run/unit.h"
#include "harness/store/claims.h"
#include "runners/runner.h"
#include "runners/work_queue.h"

namespace turnbench {

/// What the workers of a run share: the store, the claims on its units, the progress, and the
/// request to stop.  Thread-safe.
class RunState {
 public:
  RunState(const Plan& plan, Store& store, const std::function<bool()>& should_stop,
           const std::function<void(const Progress&)>& report);

  Claims& claims() { return claims_; }
  /// Stores the results of a unit, or of a cell of it; `whole`: no part of it remains to be run.
  void add(const std::string& unit, const UnitResult& result, const std::vector<ScoreValue>& scores,
           bool whole);
  /// Counts units that other processes have completed.
  void add_elsewhere(std::size_t units);
  void add_worker_seconds(double seconds);
  /// Peak memory of the worker processes of a model, without what they share with this process.
  void add_process_bytes(std::size_t bytes);

  /// The time by which units must end, the same for all workers; nullopt while the run goes on.
  std::optional<Clock::time_point> stop_time();
  /// True if no unit may begin.
  bool is_stopping() { return stopped_ || stop_time(); }
  /// Lets no further unit begin, after a failure.
  void stop() { stopped_ = true; }

  RunSummary summary();

 private:
  Store& store_;
  Claims claims_;
  const std::function<bool()>& should_stop_;
  const std::function<void(const Progress&)>& report_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // protects the members below, and the store
  RunSummary summary_;
  std::optional<Clock::time_point> stop_time_;
  std::atomic<bool> stopped_{false};
};

/// The scores of records whose turns have a reference.  A record that cannot be scored becomes
/// failed; its answer is kept.
std::vector<ScoreValue> score_records(const Plan& plan, const Unit& unit,
                                      std::vector<Record>& records);

}  // namespace turnbench
