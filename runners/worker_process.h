#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "harness/experiment/plan.h"
#include "runners/channel.h"
#include "runners/runner.h"

namespace turnbench {

/// The time by which units must end, in memory that processes share.
class SharedStop {
 public:
  SharedStop();
  ~SharedStop();
  SharedStop(const SharedStop&) = delete;
  SharedStop& operator=(const SharedStop&) = delete;

  void set(Clock::time_point time);
  std::optional<Clock::time_point> get() const;

 private:
  std::atomic<Clock::rep>* time_;  ///< 0: none
};

/// A unit that a worker process has, and since when.
struct HeldUnit {
  std::optional<Unit> unit = {};  ///< else a unit of probes
  std::optional<ProbeUnit> probes = {};
  Clock::time_point since = Clock::now();
  std::optional<double> limit_seconds = {};  ///< once it was needed

  const std::string& key() const { return unit ? unit->key : probes->key; }
};

/// A worker process, as its parent sees it.
class WorkerProcess {
 public:
  /// Starts a process that calls `work` and exits with its result.  It ends when this process does.
  /// @throws Error (runtime) if the system refuses.
  explicit WorkerProcess(const std::function<int(Channel&)>& work);
  /// Kills the process if it still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  Channel& channel() { return channel_; }
  int errors() const { return errors_; }  ///< descriptor of its stderr
  /// Reads what it has printed; also prints it on this stderr.
  void read_errors();
  void kill();
  /// Waits for its end and returns how it ended, with the last line that it printed.
  std::string wait();

  std::map<std::string, HeldUnit> held;           ///< by key
  bool alone = false;                             ///< runs a single unit, and gets no other one
  bool has_begun = false;                         ///< has sent a message
  bool idle = false;                              ///< waits for work
  bool quits = false;                             ///< was idle, and must end
  Clock::time_point last_message = Clock::now();  ///< from it, or one that ends its idle time
  std::size_t own_bytes = 0;                      ///< its peak memory without what it shares
  std::string killed_for;                         ///< why its parent killed it

 private:
  Channel channel_;
  int errors_ = -1;
  pid_t pid_ = 0;
  std::string printed_;  ///< the end of what it has printed
};

/// The work of the process: runs the units of a model that it receives over the channel.
int run_worker(const Plan& plan, std::size_t model_index, const Model* model,
               const RunOptions& options, int threads, const SharedStop& stop, Channel& channel);

}  // namespace turnbench
