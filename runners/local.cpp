#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/thread_pool.h"
#include "harness/prompt.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"
#include "runners/runner.h"

namespace turnbench {
namespace {

// Below this size a forward pass is too short for several threads: workers side by side do better.
constexpr std::int64_t kSmallModel = 100'000'000;

/// A record that cannot be scored is one that failed; its answer stays.
std::vector<ScoreValue> score_records(const Plan& plan, const Plan::Unit& unit,
                                      std::vector<Record>& records) {
  const PlannedDataset& dataset = plan.datasets[unit.dataset];
  const Metric& metric = find_metric(dataset.metric, dataset.entry.label);
  const Postprocess& postprocess = find_postprocess(dataset.postprocess, dataset.entry.label);
  std::vector<ScoreValue> out;
  for (Record& r : records) {
    if (r.status != Record::Status::kOk) continue;
    const Turn& turn = unit.dialogue->turns[static_cast<std::size_t>(r.turn)];
    const std::string answer = postprocess.apply(r.answer);
    try {
      out.push_back({r.cell, r.dialogue, r.turn, dataset.metric, dataset.postprocess,
                     metric.score({answer, turn.references, turn.classes, plan.segmenter.get()})});
    } catch (const Error& error) {
      r.status = Record::Status::kError;
      r.error = error.what();
    }
  }
  return out;
}

/// The work of one model, handed out in order.
class Queue {
 public:
  Queue(const Plan& plan, std::size_t model) : probings_(plan.probings_of(model)) {
    for (const Plan::Unit* unit : plan.units_of(model)) {
      by_dialogue_[unit->dialogue.get()] = unit;
      if (!plan.manifest.alone) {
        units_.push_back({unit->dialogue.get(), unit->cells});
        continue;
      }
      for (const UnitCell& cell : unit->cells) units_.push_back({unit->dialogue.get(), {cell}});
    }
  }

  /// The next unit (of one cell, if they run alone), or none.
  std::optional<WorkUnit> take() {
    std::lock_guard lock(mutex_);
    return next_ < units_.size() ? std::optional(units_[next_++]) : std::nullopt;
  }

  /// The next unit of probes, or null.
  const Plan::Probing* take_probing() {
    std::lock_guard lock(mutex_);
    return next_probing_ < probings_.size() ? probings_[next_probing_++] : nullptr;
  }

  /// What of the plan a unit is, or is a cell of.
  const Plan::Unit& planned(const WorkUnit& unit) const { return *by_dialogue_.at(unit.dialogue); }

 private:
  std::mutex mutex_;
  std::vector<WorkUnit> units_;
  std::map<const Dialogue*, const Plan::Unit*> by_dialogue_;
  std::vector<const Plan::Probing*> probings_;
  std::size_t next_ = 0, next_probing_ = 0;
};

ProbeUnit probe_unit(const Plan::Probing& probing) {
  ProbeUnit out{{}, probing.cells, probing.answers};
  for (const auto& dialogue : probing.dialogues) out.dialogues.push_back(dialogue.get());
  return out;
}

}  // namespace

Share share_out(const Plan& plan, std::size_t model, const RunOptions& options) {
  const int processors = available_processors(),
            jobs = static_cast<int>(plan.units_of(model).size() + plan.probings_of(model).size());
  if (plan.manifest.alone)
    return {std::min(1, jobs), options.threads > 0 ? options.threads : processors};
  if (options.workers > 0) {
    return {std::min(options.workers, jobs),
            options.threads > 0 ? options.threads : std::max(1, processors / options.workers)};
  }
  if (options.devices[0].cuda)
    return {std::min(1, jobs), options.threads > 0 ? options.threads : processors};
  const bool small = plan.models[model].checkpoint.config.parameters() < kSmallModel;
  const int threads = options.threads > 0 ? options.threads : small ? 1 : processors;
  return {std::min(small ? std::max(1, processors / threads) : 1, jobs), threads};
}

RunSummary run_plan(const Plan& plan, Store& store, const RunOptions& options,
                    const std::function<bool()>& should_stop,
                    const std::function<void(const Progress&)>& report) {
  RunSummary summary;
  summary.progress.units = plan.unit_count();
  const auto start = Clock::now();
  std::mutex mutex;  // of the store, the summary and the display
  std::atomic<bool> stop{false};
  std::exception_ptr failure;
  /// Stores what a unit gave; `whole`: nothing of it is left to do.
  const auto add = [&](const UnitResult& result, const std::vector<ScoreValue>& scores,
                       bool whole) {
    std::lock_guard lock(mutex);
    store.add_records(result.records, scores);
    Progress& progress = summary.progress;
    progress.failed += static_cast<std::size_t>(
        std::count_if(result.records.begin(), result.records.end(),
                      [](const Record& r) { return is_failure(r.status); }));
    progress.units_done += whole ? 1 : 0;
    progress.tokens += result.prefilled_tokens + result.decoded_tokens;
    progress.seconds = seconds_since(start);
    report(progress);
    if (should_stop()) stop = true;
  };

  for (std::size_t m = 0; m < plan.models.size() && !stop; ++m) {
    const Share share = share_out(plan, m, options);
    if (share.workers == 0) continue;
    Queue queue(plan, m);
    const PlannedModel& planned = plan.models[m];
    const auto loaders = make_backends(options.devices, available_processors());
    const Model model(planned.checkpoint, pointers_to(loaders), planned.dtype);
    const PromptRenderer renderer = plan.renderer(planned);
    const Decoding decoding = plan.decoding(planned);

    const auto work = [&]() {
      const auto backends = make_backends(options.devices, share.threads);
      Engine::Options engine_options;
      engine_options.kv_dtype = planned.entry.kv_dtype;
      engine_options.memory_limit = options.memory_limit;
      Engine engine(model, pointers_to(backends), engine_options);
      bool warm = !decoding.alone;
      const auto next = [&]() {
        std::optional<WorkUnit> unit = stop ? std::nullopt : queue.take();
        if (unit && !warm) run_units(engine, renderer, decoding, {*unit});
        warm |= unit.has_value();
        return unit;
      };
      const auto done = [&](const WorkUnit& unit, UnitResult result) {
        const Plan::Unit& whole = queue.planned(unit);
        const std::vector<ScoreValue> scores = score_records(plan, whole, result.records);
        add(result, scores, unit.cells.back().key == whole.cells.back().key);
      };
      run_units(engine, renderer, decoding, next, done);
      while (!stop) {
        const Plan::Probing* probing = queue.take_probing();
        if (probing == nullptr) return;
        const UnitResult result = run_probes(engine, renderer, decoding, probe_unit(*probing));
        add(result, result.scores, true);
      }
    };
    const auto guarded = [&]() {
      try {
        work();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        stop = true;
      }
    };
    std::vector<std::thread> threads;
    for (int w = 1; w < share.workers; ++w) threads.emplace_back(guarded);
    guarded();
    for (std::thread& t : threads) t.join();
  }
  if (failure) std::rethrow_exception(failure);
  summary.stopped = summary.progress.units_done < summary.progress.units;
  return summary;
}

}  // namespace turnbench
