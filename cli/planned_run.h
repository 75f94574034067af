#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/json.h"
#include "harness/experiment/plan_cost.h"
#include "harness/experiment/plan_time.h"
#include "reports/pivot.h"

namespace turnbench {

/// Memory for a run: the current process with its dialogues, plus each model in turn with its
/// workers.
struct PlannedMemory {
  struct OfModel {
    std::string name;
    PlanCost::Memory bytes;
    int workers = 0;

    /// limit: bytes of a worker and the weights; 0: none.
    bool may_exceed(std::size_t limit) const {
      return limit > 0 && bytes.weights + bytes.worker.if_answers_differ > limit;
    }
  };
  std::size_t process = 0, limit = 0;
  std::vector<OfModel> models;  ///< models with work to do
  /// Expected, if methods' answers agree and have their usual lengths; and the maximum, if no two
  /// answers agree and all have their maximum length.
  std::size_t total = 0, at_most = 0;

  PlannedMemory() = default;
  /// process: bytes.  workers: number for each model.  limit: bytes per worker; 0: none.
  PlannedMemory(const Plan& plan, const PlanCost& cost, std::span<const int> workers,
                std::size_t process, std::size_t limit);
};

/// --power: the number of dialogues at which a difference of `points` is detected, estimated from a
/// store.
struct PlannedPower {
  struct OfTable {
    std::size_t number = 0;  ///< of the manifest's tables, from 1
    std::string title;
    std::vector<NeededOfEntry> entries;
  };
  double points = 0;
  std::vector<OfTable> tables;  ///< tables that show differences

  PlannedPower(const Results& results, double points);
};

/// The output of `plan` for a manifest, or for several together.
struct PlannedRun {
  std::string name;
  PlanCost cost;
  PlannedMemory memory;
  PlannedTime time;
  std::size_t stored = 0,
              piloted = 0;  ///< dialogues with times in the store, and units run for the estimate
  std::optional<PlannedPower> power;

  /// Adds a manifest that runs after the current ones.
  PlannedRun& operator+=(const PlannedRun& next);
};

OrderedJson to_json(const PlannedRun& run);
void print(const PlannedRun& run);

}  // namespace turnbench
