// Runs in threads of this process.

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/thread_pool.h"
#include "runners/process_run.h"
#include "runners/run_state.h"
#include "runners/runner.h"
#include "runners/worker.h"

namespace turnbench {
namespace {

// Below this size a forward pass is too short for several threads, and parallel workers are faster.
constexpr std::int64_t kSmallModel = 100'000'000;
// Time between two looks at units that other processes have claimed.
constexpr std::chrono::milliseconds kPollClaimed{500};

/// Renews the claims of a run while it lives.
class Heartbeat {
 public:
  explicit Heartbeat(Claims& claims) : thread_([this, &claims] { beat(claims); }) {}
  ~Heartbeat() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    end_.notify_all();
    thread_.join();
  }

 private:
  void beat(Claims& claims) {
    std::unique_lock lock(mutex_);
    while (!end_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) {
      try {
        claims.renew();
      } catch (const Error&) {  // the store cannot be written, as its next unit will report
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;
};

/// Runs models one after another, and the units of each in parallel workers.
class LocalRun {
 public:
  LocalRun(const Plan& plan, RunState& state, const RunOptions& options)
      : plan_(plan), state_(state), options_(options) {}

  void run() {
    const Heartbeat heartbeat(state_.claims());
    for (std::size_t m = 0; m < plan_.experiment.models.size() && !state_.is_stopping(); ++m)
      run_model(m);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run_model(std::size_t m) {
    const WorkerAssignment share = assign_workers(plan_, m, options_);
    if (share.workers == 0) return;
    WorkQueue queue(plan_, m, state_.claims(), WorkQueue::Parts::kCells);
    const ResolvedModel& resolved = plan_.experiment.models[m];
    const auto loaders = make_backends(options_.devices, available_processors());
    const Model model(resolved.checkpoint, pointers_to(loaders), resolved.dtype,
                      resolved.entry.math);
    const auto work_guarded = [&] {
      try {
        const auto start = Clock::now();
        work(m, model, share.threads, queue);
        state_.add_worker_seconds(seconds_since(start));
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        state_.stop();
      }
    };
    std::vector<std::thread> others;
    for (int w = 1; w < share.workers; ++w) others.emplace_back(work_guarded);
    work_guarded();
    for (std::thread& t : others) t.join();
  }

  void work(std::size_t m, const Model& model, int threads, WorkQueue& queue) {
    Worker worker(plan_, m, model, options_, threads);
    const WorkSource source{
        {[&] { return state_.is_stopping() ? std::nullopt : queue.take(); }},
        [&] { return state_.is_stopping() ? std::nullopt : queue.take_probes(); }};
    const Deliver deliver = [&](const std::string& unit, const UnitResult& result,
                                const std::vector<ScoreValue>& scores,
                                bool whole) { state_.add(unit, result, scores, whole); };
    for (;;) {
      worker.run(source, deliver, [&] { return state_.stop_time(); });
      state_.add_elsewhere(queue.completed_elsewhere());
      if (state_.is_stopping() || !queue.retry_claimed()) return;
      std::this_thread::sleep_for(kPollClaimed);
    }
  }

  const Plan& plan_;
  RunState& state_;
  const RunOptions& options_;
  std::mutex mutex_;  // protects the member below
  std::exception_ptr failure_;
};

}  // namespace

WorkerAssignment assign_workers(const Plan& plan, std::size_t model, const RunOptions& options) {
  const int processors = available_processors(),
            units =
                static_cast<int>(plan.units_of(model).size() + plan.probe_units_of(model).size());
  if (plan.experiment.manifest.isolated)
    return {std::min(1, units), options.threads > 0 ? options.threads : processors};
  if (options.workers > 0) {
    return {std::min(options.workers, units),
            options.threads > 0 ? options.threads : std::max(1, processors / options.workers)};
  }
  if (options.devices[0].cuda)
    return {std::min(1, units), options.threads > 0 ? options.threads : processors};
  const bool small =
      plan.experiment.models[model].checkpoint.config.parameter_count() < kSmallModel;
  const int threads = options.threads > 0 ? options.threads : small ? 1 : processors;
  return {std::min(small ? std::max(1, processors / threads) : 1, units), threads};
}

RunSummary run_plan(const Plan& plan, Store& store, const RunOptions& options,
                    const std::function<bool()>& should_stop,
                    const std::function<void(const Progress&)>& report) {
  if (plan.unit_count() == 0) return {};
  RunState state(plan, store, should_stop, report);
  if (options.processes) {
    run_in_processes(plan, state, options);
  } else {
    LocalRun(plan, state, options).run();
  }
  return state.summary();
}

}  // namespace turnbench
