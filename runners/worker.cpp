#include "runners/worker.h"

#include <utility>

#include "runners/run_state.h"

namespace turnbench {

Worker::Worker(const Plan& plan, std::size_t model_index, const Model& model,
               const RunOptions& options, int threads)
    : plan_(plan),
      resolved_(plan.experiment.models[model_index]),
      decoding_(plan.experiment.decoding(resolved_)),
      renderer_(plan.experiment.renderer(resolved_)),
      worker_(model, resolved_, decoding_, options, threads),
      warm_(!decoding_.isolated) {}

void Worker::run(const WorkSource& source, const Deliver& deliver, const StopTime& stop) {
  Engine& engine = worker_.engine;
  bool lost = false;
  const auto next = [&] {
    std::optional<Unit> unit = source.units.next();
    if (unit && !warm_) run_units(engine, renderer_, decoding_, {*unit}, stop);
    warm_ |= unit.has_value();
    return unit;
  };
  const auto done = [&](const Unit& unit, UnitResult result) {
    std::vector<ScoreValue> scores = score_records(plan_, unit, result.records);
    scores.insert(scores.end(), result.scores.begin(), result.scores.end());
    lost |= !result.lost_device.empty();
    deliver(unit.key, result, scores, unit.last_part);
  };
  run_units(engine, renderer_, decoding_, {next, source.units.request}, done, stop);
  while (!lost) {
    const std::optional<ProbeUnit> unit = source.next_probes();
    if (!unit) return;
    const UnitResult result = run_probes(engine, renderer_, decoding_, *unit, stop);
    if (result.abandoned) return;
    lost |= !result.lost_device.empty();
    deliver(unit->key, result, result.scores, true);
  }
}

}  // namespace turnbench
