#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/store/store.h"
#include "inference/devices/devices.h"

namespace turnbench {

struct RunOptions {
  int workers = 0;  ///< units that run at the same time; 0: as many as serve the model's size
  int threads = 0;  ///< of each worker; 0: the processors shared out
  std::vector<Device> devices = {Device{}};  ///< of a model's stages
  std::size_t memory_limit = 0;              ///< bytes of a worker's engine; 0 = none
};

/// Workers of a model and the threads of each.
struct Share {
  int workers, threads;
};
/// As `options` say, or as serves the model's size; cells that run alone have one worker.  No more
/// workers than there is work for the model.
Share share_out(const Plan& plan, std::size_t model, const RunOptions& options);

/// How far a run is, for a display.
struct Progress {
  std::size_t units_done = 0, units = 0, failed = 0;
  std::int64_t tokens = 0;  ///< prefilled and decoded
  double seconds = 0;
};

struct RunSummary {
  Progress progress;
  bool stopped = false;  ///< ended early, by `should_stop`
};

/// Runs a plan's units in this process: workers with an engine each share the weights; records are
/// stored as soon as a unit has ended, in one transaction.  `should_stop` is asked after each unit,
/// and those that have begun are ended; `report` is called after each.
RunSummary run_plan(const Plan& plan, Store& store, const RunOptions& options,
                    const std::function<bool()>& should_stop,
                    const std::function<void(const Progress&)>& report);

}  // namespace turnbench
