#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/store/store.h"
#include "inference/devices/devices.h"

namespace turnbench {

struct RunOptions {
  int workers = 0;  ///< number of engines that run units; 0: chosen by the model's size
  int threads = 0;  ///< per worker; 0: the processors divided by the workers
  std::vector<Device> devices = {Device{}};  ///< one for each stage of a model
  std::size_t memory_limit = 0;              ///< bytes per engine; 0: no limit
  bool processes = false;                    ///< workers are processes instead of threads
  /// The time limit of a unit in a process: this time, and this multiple of the expected time.
  std::chrono::seconds least_time_limit{60};
  double time_tolerance = 20;
};

/// The number of workers for a model, and the threads of each.
struct WorkerAssignment {
  int workers, threads;
};
/// As in `options`, or by default chosen by the model's size.  Isolated experiments get one worker.
/// Never more workers than units of the model.
WorkerAssignment assign_workers(const Plan& plan, std::size_t model, const RunOptions& options);

/// Progress of a run, for display.
struct Progress {
  std::size_t units_done = 0, units = 0, failed = 0;
  std::int64_t tokens = 0;  ///< prefilled and decoded
  double seconds = 0;
};

struct RunSummary {
  Progress progress;
  bool stopped = false;     ///< `should_stop` or a lost device ended the run early
  std::string lost_device;  ///< why a device is unusable for the rest of the process; else empty
  std::string batch_error;  ///< the last one of a unit, as in UnitResult; else empty
  /// Time of all workers together, and the part of it in the engine: prefills and decode steps.
  double worker_seconds = 0, engine_seconds = 0;
  std::size_t elsewhere = 0;      ///< units among `progress.units_done` that other runs computed
  std::size_t process_bytes = 0;  ///< peak memory of worker processes, without shared memory
};

/// Time that units have to end after a run is told to stop.
constexpr std::chrono::seconds kTimeToEnd{10};

/// Runs a plan's units in worker threads or processes.  Each worker has its own engine; the weights
/// are shared.  Units are claimed, so that several runs on one store share the work; returns when
/// the store has the results of all units, also of those that another run computes.  The records of
/// a unit are stored in one transaction as soon as it ends; then calls `report`. Polls
/// `should_stop` at each decode step, from all workers.  If it returns true, no unit starts, and
/// units that are not expected to end within kTimeToEnd are abandoned: nothing of them is stored.
RunSummary run_plan(const Plan& plan, Store& store, const RunOptions& options,
                    const std::function<bool()>& should_stop,
                    const std::function<void(const Progress&)>& report);

}  // namespace turnbench
