#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
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
  Queue(const Plan& plan, std::size_t model)
      : batches_(plan.batches(model)), probings_(plan.probings_of(model)) {}

  /// The next batch of units, or none.
  std::vector<const Plan::Unit*> take() {
    std::lock_guard lock(mutex_);
    return next_ < batches_.size() ? batches_[next_++] : std::vector<const Plan::Unit*>{};
  }

  /// The next unit of probes, or null.
  const Plan::Probing* take_probing() {
    std::lock_guard lock(mutex_);
    return next_probing_ < probings_.size() ? probings_[next_probing_++] : nullptr;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<const Plan::Unit*>> batches_;
  std::vector<const Plan::Probing*> probings_;
  std::size_t next_ = 0, next_probing_ = 0;
};

/// Cell after cell; the first one twice unless the engine is warm.
UnitResult run_alone(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<WorkUnit>& units, bool warm) {
  UnitResult out;
  for (const WorkUnit& unit : units) {
    for (const UnitCell& cell : unit.cells) {
      const std::vector<WorkUnit> alone = {{unit.dialogue, {cell}}};
      if (!warm) run_units(engine, renderer, decoding, alone);
      warm = true;
      out.add(run_units(engine, renderer, decoding, alone));
    }
  }
  return out;
}

ProbeUnit probe_unit(const Plan::Probing& probing) {
  ProbeUnit out{{}, probing.cells, probing.answers};
  for (const auto& dialogue : probing.dialogues) out.dialogues.push_back(dialogue.get());
  return out;
}

}  // namespace

Share share_out(const Plan& plan, std::size_t model, const RunOptions& options) {
  const int processors = available_processors(),
            jobs = static_cast<int>(plan.batches(model).size() + plan.probings_of(model).size());
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
  // All under `mutex`.
  const auto add = [&](const std::vector<Record>& records, const std::vector<ScoreValue>& scores) {
    store.add_records(records, scores);
    summary.progress.failed += static_cast<std::size_t>(std::count_if(
        records.begin(), records.end(), [](const Record& r) { return is_failure(r.status); }));
    ++summary.progress.units_done;
  };
  const auto show = [&](std::int64_t tokens) {
    summary.progress.tokens += tokens;
    summary.progress.seconds = seconds_since(start);
    report(summary.progress);
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
      bool warm = false;
      while (!stop) {
        const std::vector<const Plan::Unit*> batch = queue.take();
        if (batch.empty()) break;
        std::vector<WorkUnit> units;
        for (const Plan::Unit* unit : batch) units.push_back({unit->dialogue.get(), unit->cells});
        const UnitResult result = decoding.alone
                                      ? run_alone(engine, renderer, decoding, units, warm)
                                      : run_units(engine, renderer, decoding, units);
        warm = true;
        std::lock_guard lock(mutex);
        for (const Plan::Unit* unit : batch) {
          std::vector<Record> records;
          for (const Record& r : result.records) {
            const bool own = std::any_of(unit->cells.begin(), unit->cells.end(),
                                         [&](const UnitCell& c) { return c.key == r.cell; });
            if (own && r.dialogue == unit->dialogue->id) records.push_back(r);
          }
          const std::vector<ScoreValue> scores = score_records(plan, *unit, records);
          add(records, scores);
        }
        show(result.prefilled_tokens + result.decoded_tokens);
      }
      while (!stop) {
        const Plan::Probing* probing = queue.take_probing();
        if (probing == nullptr) return;
        const UnitResult result = run_probes(engine, renderer, decoding, probe_unit(*probing));
        std::lock_guard lock(mutex);
        add(result.records, result.scores);
        show(result.prefilled_tokens + result.decoded_tokens);
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
