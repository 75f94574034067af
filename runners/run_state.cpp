#include "runners/run_state.h"

#include <algorithm>

#include "common/error.h"
#include "harness/scoring/score_answer.h"

namespace turnbench {

RunState::RunState(const Plan& plan, Store& store, const std::function<bool()>& should_stop,
                   const std::function<void(const Progress&)>& report)
    : store_(store), claims_(store.path()), should_stop_(should_stop), report_(report) {
  summary_.progress.units = plan.unit_count();
}

void RunState::add(const std::string& unit, const UnitResult& result,
                   const std::vector<ScoreValue>& scores, bool whole) {
  std::lock_guard lock(mutex_);
  store_.add_records(result.records, scores);
  if (whole) claims_.release(unit);
  Progress& progress = summary_.progress;
  progress.failed +=
      static_cast<std::size_t>(std::count_if(result.records.begin(), result.records.end(),
                                             [](const Record& r) { return is_failure(r.status); }));
  progress.units_done += whole ? 1 : 0;
  progress.tokens += result.prefilled_tokens + result.decoded_tokens;
  progress.seconds = seconds_since(start_);
  summary_.engine_seconds += result.engine_seconds;
  report_(progress);
  if (!result.batch_error.empty()) summary_.batch_error = result.batch_error;
  if (!result.lost_device.empty()) summary_.lost_device = result.lost_device;
  if (!summary_.lost_device.empty()) stopped_ = true;
}

void RunState::add_elsewhere(std::size_t units) {
  std::lock_guard lock(mutex_);
  summary_.progress.units_done += units;
  summary_.elsewhere += units;
  if (units > 0) report_(summary_.progress);
}

void RunState::add_worker_seconds(double seconds) {
  std::lock_guard lock(mutex_);
  summary_.worker_seconds += seconds;
}

void RunState::add_process_bytes(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  summary_.process_bytes = std::max(summary_.process_bytes, bytes);
}

std::optional<Clock::time_point> RunState::stop_time() {
  if (!should_stop_()) return std::nullopt;
  std::lock_guard lock(mutex_);
  if (!stop_time_) stop_time_ = Clock::now() + kTimeToEnd;
  return stop_time_;
}

RunSummary RunState::summary() {
  std::lock_guard lock(mutex_);
  RunSummary out = summary_;
  out.stopped = out.progress.units_done < out.progress.units;
  return out;
}

std::vector<ScoreValue> score_records(const Plan& plan, const Unit& unit,
                                      std::vector<Record>& records) {
  const ResolvedDataset& dataset = plan.experiment.datasets[unit.dataset];
  const Scorer scorer{&find_metric(dataset.metric, dataset.entry.label),
                      &find_postprocess(dataset.postprocess, dataset.entry.label),
                      plan.experiment.segmenter.get()};
  std::vector<ScoreValue> out;
  for (Record& r : records) {
    if (r.status != Record::Status::kOk) continue;
    const Turn& turn = unit.dialogue->turns[r.turn];
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

}  // namespace turnbench
