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

/// What a run takes: this process as it stands, with its dialogues, then one model after the other
/// with its workers.
struct PlannedMemory {
  struct OfModel {
    std::string name;
    PlanCost::Memory bytes;
    int workers = 0;
  };
  std::size_t process = 0;
  std::vector<OfModel> models;  ///< that have work to do
  /// With answers as they have been so far, on which methods agree; and if no two answers agree and
  /// all are as long as they may be.
  std::size_t total = 0, at_most = 0;

  PlannedMemory() = default;
  /// process: bytes.  workers: of each model.
  PlannedMemory(const Plan& plan, const PlanCost& cost, std::span<const int> workers,
                std::size_t process);
};

/// --power: how many dialogues tell a difference of `points` apart, by what a store has.
struct PlannedPower {
  struct OfTable {
    std::string title;
    std::vector<NeededOfEntry> entries;
  };
  double points = 0;
  std::vector<OfTable> tables;  ///< that show differences

  PlannedPower(const Results& results, double points);
};

/// The output of `plan` for a manifest, or for several together.
struct PlannedRun {
  std::string name;
  PlanCost cost;
  PlannedMemory memory;
  PlannedTime time;
  std::size_t stored = 0, piloted = 0;  ///< dialogues with times in the store, and units run now
  std::optional<PlannedPower> power;

  /// Adds a manifest that runs after these.
  PlannedRun& operator+=(const PlannedRun& next);
};

OrderedJson to_json(const PlannedRun& run);
void print(const PlannedRun& run);

}  // namespace turnbench
