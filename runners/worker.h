#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "runners/worker_engine.h"

namespace turnbench {

/// Where a worker takes its work from.
struct WorkSource {
  UnitSource units;
  std::function<std::optional<ProbeUnit>()> next_probes;  ///< nullopt: none is left now
};

/// Receives the results of a unit, or of a cell of it (`whole` is false unless it is the last).
using Deliver = std::function<void(const std::string& unit, const UnitResult& result,
                                   const std::vector<ScoreValue>& scores, bool whole)>;

/// One engine that runs units of a model of a plan.
class Worker {
 public:
  Worker(const Plan& plan, std::size_t model_index, const Model& model, const RunOptions& options,
         int threads);

  /// Runs units until the source has none, then units of probes; returns early if `stop` gives a
  /// time, or after a lost device.
  void run(const WorkSource& source, const Deliver& deliver, const StopTime& stop);

 private:
  const Plan& plan_;
  const ResolvedModel& resolved_;
  const Decoding decoding_;
  const PromptRenderer renderer_;
  WorkerEngine worker_;
  bool warm_;  ///< has run a unit, so that times do not include first uses
};

}  // namespace turnbench
