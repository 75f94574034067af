#pragma once

#include <memory>
#include <vector>

#include "harness/experiment/experiment.h"
#include "inference/engine/engine.h"
#include "runners/runner.h"

namespace turnbench {

/// The engine of one worker, with its own backends.
struct WorkerEngine {
  std::vector<std::unique_ptr<Backend>> backends;  ///< one for each stage of the model
  Engine engine;

  WorkerEngine(const Model& model, const ResolvedModel& resolved, const Decoding& decoding,
               const RunOptions& options, int threads)
      : backends(make_backends(options.devices, threads)),
        engine(model, pointers_to(backends),
               {.kv_dtype = resolved.entry.kv_dtype,
                .memory_limit = options.memory_limit,
                .link_gbps = decoding.link_gbps}) {}
};

}  // namespace turnbench
