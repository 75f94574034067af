#include "runners/process_run.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/thread_pool.h"
#include "runners/result_bytes.h"
#include "runners/time_limits.h"
#include "runners/worker_process.h"

namespace turnbench {
namespace {

constexpr int kPollMilliseconds = 200;
constexpr double kPollClaimedSeconds = 0.5;
constexpr int kMostFailedStarts = 3;
constexpr std::size_t kMostCompleted = 16;  // units whose results wait to be stored
constexpr double kMostStartSeconds = 1800;  // a device may load a large model

/// Results that a worker has sent.
struct Completed {
  std::string key;
  SentResult result;
  bool whole;
};

/// Runs the units of one model.
class ModelRun {
 public:
  ModelRun(const Plan& plan, std::size_t model_index, RunState& state, const RunOptions& options,
           PlannedLengths& lengths)
      : plan_(plan),
        index_(model_index),
        state_(state),
        options_(options),
        limits_(plan, options, lengths),
        share_(assign_workers(plan, model_index, options)),
        queue_(plan, model_index, state.claims(), WorkQueue::Parts::kUnits) {}

  void run() {
    if (share_.workers == 0) return;
    const ResolvedModel& resolved = plan_.experiment.models[index_];
    const bool on_cpu = std::none_of(options_.devices.begin(), options_.devices.end(),
                                     [](const Device& device) { return device.cuda; });
    if (on_cpu) {  // processes share these weights until one of them writes, which none does
      const auto loaders = make_backends(options_.devices, 1);
      model_.emplace(resolved.checkpoint, pointers_to(loaders), resolved.dtype,
                     resolved.entry.math);
      run_workers();
      model_.reset();
    } else {
      run_workers();
    }
  }

 private:
  void run_workers() {
    for (int w = 0; w < share_.workers; ++w) start();
    while (!workers_.empty()) {
      // Workers that wait for a unit come first, then results.
      const bool asked = wait_for_events(completed_.empty() ? kPollMilliseconds : 0);
      if (!asked || completed_.size() > kMostCompleted) store_next();
      state_.claims().renew();
      if (const auto time = state_.stop_time()) stop_.set(*time);
      for (auto worker = workers_.begin(); worker != workers_.end();) {
        const auto next = std::next(worker);
        serve(worker);
        worker = next;
      }
      state_.add_elsewhere(queue_.completed_elsewhere());
      wake_idle();
    }
    while (!completed_.empty()) store_next();
    state_.add_process_bytes(own_bytes_);
    if (failure_) throw Error(*failure_);
  }

  void start() {
    workers_.emplace_back([this](Channel& channel) {
      return run_worker(plan_, index_, model_ ? &*model_ : nullptr, options_, share_.threads, stop_,
                        channel);
    });
  }

  /// Returns true if a worker has sent something.
  bool wait_for_events(int milliseconds) {
    std::vector<pollfd> events;
    for (WorkerProcess& worker : workers_) {
      events.push_back({worker.channel().descriptor(), POLLIN, 0});
      events.push_back({worker.errors(), POLLIN, 0});
    }
    return poll(events.data(), events.size(), milliseconds) > 0;
  }

  /// Stores the results of the unit that was completed first.
  void store_next() {
    if (completed_.empty()) return;
    const Completed unit = std::move(completed_.front());
    completed_.pop_front();
    state_.add(unit.key, unit.result.unit, unit.result.scores, unit.whole);
  }

  /// Handles the messages of a worker, and its end.
  void serve(std::list<WorkerProcess>::iterator worker) {
    worker->read_errors();
    const bool open = worker->channel().read_available();
    while (const std::optional<Json> message = worker->channel().take()) handle(*worker, *message);
    if (!open) {
      bury(worker);
    } else if (worker->killed_for.empty()) {
      check_time(*worker);
    }
  }

  void handle(WorkerProcess& worker, const Json& message) {
    worker.last_message = Clock::now();
    worker.has_begun = true;
    if (message.contains("ask")) {
      worker.channel().send(message.at("ask") == "unit" ? next_unit(worker) : next_probes(worker));
    } else if (message.contains("done")) {
      const std::string key = message.at("done");
      const bool whole = message.at("whole");
      completed_.push_back({key, result_from_bytes(message.at("result").get_binary()), whole});
      failed_starts_ = 0;
      const auto held = worker.held.find(key);
      if (!whole || held == worker.held.end()) return;
      limits_.add_ended(std::move(held->second));
      worker.held.erase(held);
      worker.alone = false;
    } else if (message.contains("idle")) {
      state_.add_worker_seconds(message.at("idle"));
      worker.own_bytes = message.at("own_bytes");
      worker.held.clear();  // units that it has abandoned
      worker.alone = false;
      worker.idle = true;
    } else if (message.contains("error") && !failure_) {
      failure_ = Error(static_cast<ErrorKind>(message.at("kind").get<int>()),
                       message.at("error").get<std::string>());
      state_.stop();
    }
  }

  Json next_unit(WorkerProcess& worker) {
    std::optional<Unit> unit;
    if (state_.is_stopping() || worker.alone) return Json::object();
    if (suspects_.empty()) {
      unit = queue_.take();
    } else if (worker.held.empty() && suspects_.front().unit) {
      unit = std::move(suspects_.front().unit);
      suspects_.pop_front();
      worker.alone = true;
    }
    return unit ? hand_out(worker, {.unit = std::move(unit)}) : Json::object();
  }

  Json next_probes(WorkerProcess& worker) {
    std::optional<ProbeUnit> probes;
    if (state_.is_stopping() || worker.alone) return Json::object();
    if (suspects_.empty()) {
      probes = queue_.take_probes();
    } else if (worker.held.empty() && suspects_.front().probes) {
      probes = std::move(suspects_.front().probes);
      suspects_.pop_front();
      worker.alone = true;
    }
    return probes ? hand_out(worker, {.probes = std::move(probes)}) : Json::object();
  }

  Json hand_out(WorkerProcess& worker, HeldUnit held) {
    Json cells = Json::array();
    if (held.unit) {
      for (const UnitCell& cell : held.unit->cells) cells.push_back(cell.key);
    } else {
      for (const ProbeCell& cell : held.probes->cells) cells.push_back(cell.key);
    }
    const std::string key = held.key();
    worker.held.insert_or_assign(key, std::move(held));
    return {{"key", key}, {"cells", std::move(cells)}};
  }

  /// Kills a worker that exceeds the time limit of a unit, or does not stop.
  void check_time(WorkerProcess& worker) {
    if (const std::optional<double> limit = limits_.exceeded(worker.held))
      worker.killed_for = fmt::format("was killed after {:.0f} s, its time limit", *limit);
    const double most_silence = worker.has_begun
                                    ? static_cast<double>(options_.least_time_limit.count())
                                    : kMostStartSeconds;
    if (worker.held.empty() && (!worker.idle || worker.quits) &&
        seconds_since(worker.last_message) > most_silence)
      worker.killed_for = "was killed because it did not answer";
    const auto time = stop_.get();
    if (time && !worker.idle && Clock::now() > *time + kTimeToEnd)
      worker.killed_for = "was killed because it did not stop";
    if (!worker.killed_for.empty()) worker.kill();
  }

  /// Handles the end of a process.
  void bury(std::list<WorkerProcess>::iterator worker) {
    const std::string how = "worker process " + worker->wait();
    const bool quit = worker->idle;
    own_bytes_ += worker->own_bytes;
    std::map<std::string, HeldUnit> held = std::move(worker->held);
    workers_.erase(worker);
    if (quit || failure_ || state_.is_stopping()) return;
    if (held.empty() && ++failed_starts_ == kMostFailedStarts) {
      failure_ = runtime_error("{} before it ran a unit", how);
      state_.stop();
      return;
    }
    if (held.size() == 1) {
      fail(held.begin()->second, how);
    } else {
      for (auto& [key, unit] : held) suspects_.push_back(std::move(unit));
    }
    start();
  }

  /// Records that a unit has ended its process.
  void fail(const HeldUnit& held, const std::string& how) {
    const Error error = runtime_error("{}", how);
    UnitResult result;
    const auto add = [&](const auto& cells, const Dialogue& dialogue) {
      for (const auto& cell : cells) {
        for (Record& record : failed_records(cell.key, dialogue, error))
          result.records.push_back(std::move(record));
      }
    };
    if (held.unit) {
      add(held.unit->cells, *held.unit->dialogue);
    } else {
      for (const Dialogue* dialogue : held.probes->dialogues) add(held.probes->cells, *dialogue);
    }
    state_.add(held.key(), result, {}, true);
  }

  /// Gives idle workers the work that has become available, and ends them if there is none.
  void wake_idle() {
    const bool stopping = state_.is_stopping();
    const bool all_idle = std::all_of(workers_.begin(), workers_.end(),
                                      [](const WorkerProcess& w) { return w.idle; });
    bool more = !suspects_.empty();
    if (!more && !stopping && seconds_since(polled_) > kPollClaimedSeconds) {
      polled_ = Clock::now();
      more = queue_.retry_claimed();
    }
    const bool ends = stopping || (all_idle && suspects_.empty() && queue_.is_empty());
    for (WorkerProcess& worker : workers_) {
      if (!worker.idle || worker.quits || (!more && !ends)) continue;
      worker.idle = worker.quits = ends;
      worker.last_message = Clock::now();
      worker.channel().send(ends ? Json{{"quit", true}} : Json{{"go", true}});
    }
  }

  const Plan& plan_;
  const std::size_t index_;
  RunState& state_;
  const RunOptions& options_;
  TimeLimits limits_;
  const WorkerAssignment share_;
  WorkQueue queue_;
  SharedStop stop_;
  std::optional<Model> model_;
  std::list<WorkerProcess> workers_;
  std::deque<HeldUnit> suspects_;    // ran in a process that ended; each runs again alone
  std::deque<Completed> completed_;  // units whose results are not stored yet, oldest first
  int failed_starts_ = 0;            // in a row
  std::size_t own_bytes_ = 0;        // of the processes that have ended
  Clock::time_point polled_ = Clock::now();
  std::optional<Error> failure_;
};

}  // namespace

void run_in_processes(const Plan& plan, RunState& state, const RunOptions& options) {
  PlannedLengths lengths(plan);
  for (std::size_t m = 0; m < plan.experiment.models.size() && !state.is_stopping(); ++m)
    ModelRun(plan, m, state, options, lengths).run();
}

}  // namespace turnbench
