#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/thread_pool.h"
#include "harness/run/prompt.h"
#include "harness/scoring/score_answer.h"
#include "runners/runner.h"
#include "runners/worker_engine.h"

namespace turnbench {
namespace {

// Below this size a forward pass is too short for several threads, and parallel workers are faster.
constexpr std::int64_t kSmallModel = 100'000'000;

/// The scores of records whose turns have a reference.  A record that cannot be scored becomes
/// failed; its answer is kept.
std::vector<ScoreValue> score_records(const Plan& plan, const Unit& unit,
                                      std::vector<Record>& records) {
  const ResolvedDataset& dataset = plan.experiment.datasets[unit.dataset];
  const Scorer scorer{&find_metric(dataset.metric, dataset.entry.label),
                      &find_postprocess(dataset.postprocess, dataset.entry.label),
                      plan.experiment.segmenter.get()};
  std::vector<ScoreValue> out;
  for (Record& r : records) {
    if (r.status != Record::Status::kOk) continue;
    const Turn& turn = unit.dialogue->turns[static_cast<std::size_t>(r.turn)];
    try {
      if (const std::optional<double> score = score_answer(scorer, turn, r.answer))
        out.push_back({r.cell, r.dialogue, r.turn, dataset.metric, dataset.postprocess, *score});
    } catch (const Error& error) {
      r.status = Record::Status::kError;
      r.error = error.what();
    }
  }
  return out;
}

/// The work of one model, distributed in order.
class Queue {
 public:
  Queue(const Plan& plan, std::size_t model) : probe_units_(plan.probe_units_of(model)) {
    for (const Unit* unit : plan.units_of(model)) {
      if (plan.experiment.manifest.isolated) {
        for (Unit& part : unit->split()) units_.push_back(std::move(part));
      } else {
        units_.push_back(*unit);
      }
    }
  }

  /// The next unit (with one cell, if cells run alone), or nullopt.
  std::optional<Unit> take() {
    std::lock_guard lock(mutex_);
    return next_ < units_.size() ? std::optional(units_[next_++]) : std::nullopt;
  }

  /// The next unit of probes, or null.
  const ProbeUnit* take_probes() {
    std::lock_guard lock(mutex_);
    return next_probes_ < probe_units_.size() ? probe_units_[next_probes_++] : nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<Unit> units_;
  std::vector<const ProbeUnit*> probe_units_;
  std::size_t next_ = 0, next_probes_ = 0;
};

/// Runs models one after another, and the units of each in parallel workers.
class LocalRun {
 public:
  LocalRun(const Plan& plan, Store& store, const RunOptions& options,
           const std::function<bool()>& should_stop,
           const std::function<void(const Progress&)>& report)
      : plan_(plan), store_(store), options_(options), should_stop_(should_stop), report_(report) {
    progress_.units = plan.unit_count();
  }

  RunSummary run() {
    for (std::size_t m = 0; m < plan_.experiment.models.size() && !is_stopping(); ++m) run_model(m);
    if (failure_) std::rethrow_exception(failure_);
    return {progress_, progress_.units_done < progress_.units, lost_device_, worker_seconds_,
            engine_seconds_};
  }

 private:
  /// State that the workers of a model share.
  struct Shared {
    const ResolvedModel& resolved;
    const Model& model;
    const PromptRenderer& renderer;
    const Decoding& decoding;
    int threads;  ///< of each worker
    Queue& queue;
  };

  void run_model(std::size_t m) {
    const WorkerAssignment share = assign_workers(plan_, m, options_);
    if (share.workers == 0) return;
    Queue queue(plan_, m);
    const ResolvedModel& resolved = plan_.experiment.models[m];
    const auto loaders = make_backends(options_.devices, available_processors());
    const Model model(resolved.checkpoint, pointers_to(loaders), resolved.dtype);
    const PromptRenderer renderer = plan_.experiment.renderer(resolved);
    const Decoding decoding = plan_.experiment.decoding(resolved);
    const Shared shared{resolved, model, renderer, decoding, share.threads, queue};
    std::vector<std::thread> others;
    for (int w = 1; w < share.workers; ++w) others.emplace_back([&] { work_guarded(shared); });
    work_guarded(shared);
    for (std::thread& t : others) t.join();
  }

  void work_guarded(const Shared& shared) {
    try {
      const auto start = Clock::now();
      work(shared);
      std::lock_guard lock(mutex_);
      worker_seconds_ += seconds_since(start);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
  }

  void work(const Shared& shared) {
    const auto& [resolved, model, renderer, decoding, threads, queue] = shared;
    WorkerEngine worker(model, resolved, decoding, options_, threads);
    Engine& engine = worker.engine;
    bool warm = !decoding.isolated;
    const StopTime stop = [this] { return stop_time(); };
    const auto next = [&] {
      std::optional<Unit> unit = is_stopping() ? std::nullopt : shared.queue.take();
      if (unit && !warm) run_units(engine, shared.renderer, shared.decoding, {*unit}, stop);
      warm |= unit.has_value();
      return unit;
    };
    const auto done = [&](const Unit& unit, UnitResult result) {
      std::vector<ScoreValue> scores = score_records(plan_, unit, result.records);
      scores.insert(scores.end(), result.scores.begin(), result.scores.end());
      add(result, scores, unit.last_part);
    };
    run_units(engine, renderer, decoding, next, done, stop);
    while (!is_stopping()) {
      const ProbeUnit* unit = queue.take_probes();
      if (unit == nullptr) return;
      const UnitResult result = run_probes(engine, renderer, decoding, *unit, stop);
      if (!result.abandoned) add(result, result.scores, true);
    }
  }

  bool is_stopping() { return stop_ || stop_time(); }

  /// The same for all workers.
  std::optional<Clock::time_point> stop_time() {
    if (!should_stop_()) return std::nullopt;
    std::lock_guard lock(stop_mutex_);
    if (!stop_time_) stop_time_ = Clock::now() + kTimeToEnd;
    return stop_time_;
  }

  /// Stores the results of a unit; `whole`: no part of it remains to be run.
  void add(const UnitResult& result, const std::vector<ScoreValue>& scores, bool whole) {
    std::lock_guard lock(mutex_);
    store_.add_records(result.records, scores);
    progress_.failed += static_cast<std::size_t>(
        std::count_if(result.records.begin(), result.records.end(),
                      [](const Record& r) { return is_failure(r.status); }));
    progress_.units_done += whole ? 1 : 0;
    engine_seconds_ += result.engine_seconds;
    progress_.tokens += result.prefilled_tokens + result.decoded_tokens;
    progress_.seconds = seconds_since(start_);
    report_(progress_);
    if (!result.lost_device.empty()) lost_device_ = result.lost_device;
    if (!lost_device_.empty()) stop_ = true;
  }

  const Plan& plan_;
  Store& store_;
  const RunOptions& options_;
  const std::function<bool()>& should_stop_;
  const std::function<void(const Progress&)>& report_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // protects the members below, and the store
  Progress progress_;
  double worker_seconds_ = 0, engine_seconds_ = 0;
  std::exception_ptr failure_;
  std::string lost_device_;
  std::atomic<bool> stop_{false};
  std::mutex stop_mutex_;
  std::optional<Clock::time_point> stop_time_;
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
  return LocalRun(plan, store, options, should_stop, report).run();
}

}  // namespace turnbench
