#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/store/store.h"
#include "harness/unit/probe_unit.h"
#include "harness/unit/unit.h"
#include "inference/devices/devices.h"

namespace turnbench {

/// What is to be computed of an experiment: its cells, and the units that share their computation.
struct Plan {
  Experiment experiment;
  std::vector<Cell> cells;  ///< of the tables: twice the same where two labels are of one content

  /// One dialogue at one position, and its cells; `model` and `dataset` are indices.
  struct Unit {
    std::size_t model = 0, dataset = 0;
    std::shared_ptr<const Dialogue> dialogue;
    std::vector<UnitCell> cells;
  };
  std::vector<Unit> units;  ///< each pair of a cell and a dialogue once

  /// Dialogues at one position that the same probes look at: one, or all that are compared.
  struct ProbeJob {
    std::size_t model = 0, dataset = 0;
    std::vector<std::shared_ptr<const Dialogue>> dialogues;
    std::vector<ProbeCell> cells;
    Answers answers = Answers::kOwn;
  };
  std::vector<ProbeJob> probe_jobs;  ///< run after the units

  std::size_t unit_count() const { return units.size() + probe_jobs.size(); }
  /// The units of a model, in the order in which workers take them.
  std::vector<const Unit*> units_of(std::size_t model) const;
  /// The probe jobs of a model, which workers take when no unit is left.
  std::vector<const ProbeJob*> probe_jobs_of(std::size_t model) const;
};

/// Experiment -> cells -> units, in table order.
Plan make_plan(Experiment experiment);

/// Drops what the store already holds: complete (cell, dialogue) pairs whose results are those of
/// this program's sources, and units without cells.  Writes nothing, but returns what the store is
/// to adopt for that.
std::vector<Store::Adoption> drop_done(Plan& plan, const Store& store);

/// What the store needs to know before the first record: experiment, cells, dialogues, machine.
StoredExperiment stored_experiment(const Plan& plan,
                                   const std::vector<Device>& devices = {Device{}});

}  // namespace turnbench
