#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/run/probe_unit.h"
#include "harness/run/unit.h"
#include "harness/store/store.h"
#include "inference/devices/devices.h"

namespace turnbench {

/// The work of an experiment: its cells, and the units in which cells share computation.  The key
/// of a unit is a hash of the content of its dialogues and of the keys of its cells, also of those
/// that are dropped later: it depends neither on the order of the units nor on stored results.
struct Plan {
  Plan() = default;
  Plan(Plan&&) = default;  // a copy's units would refer to the original's methods and dialogues
  Plan& operator=(Plan&&) = default;

  Experiment experiment;
  std::vector<Cell> cells;         ///< in table order; repeated if two labels have the same content
  std::deque<Dialogue> dialogues;  ///< at every position; units refer to them
  std::vector<Unit> units;         ///< each pair of a cell and a dialogue occurs once
  std::vector<ProbeUnit> probe_units;  ///< run after the units

  std::size_t unit_count() const { return units.size() + probe_units.size(); }
  /// The units of a model, in the order in which workers run them: units of all datasets and
  /// positions in turn, so that the cells of a table fill evenly.
  std::vector<const Unit*> units_of(std::size_t model) const;
  /// The probe units of a model, which workers run when no other unit is left.
  std::vector<const ProbeUnit*> probe_units_of(std::size_t model) const;
};

/// Makes the cells and units of an experiment, in table order.
Plan make_plan(Experiment experiment);

/// Drops work with stored results: (cell, dialogue) pairs that this program's sources have
/// completed, in the cell itself or in a cell with equal results; then units without cells.  Writes
/// nothing.  Returns the results to copy with `Store::copy_results`.
std::vector<Store::ResultCopy> drop_stored_work(Plan& plan, const Store& store);

/// (cell, dialogue) pairs.
using Work = std::set<std::pair<std::string, std::string>>;
Work work_of(const Plan& plan);

/// Drops all other work.  Probes that compare dialogues keep all of them if `work` has one.
void keep_work(Plan& plan, const Work& work);

/// Drops the work that is in `planned`, and adds the rest to it, so that work common to several
/// manifests runs once.
void drop_planned_work(Plan& plan, Work& planned);

/// The data that the store needs before the first record: experiment, cells, dialogues and
/// environment.  threads: those of isolated cells; 0: all processors.
StoredExperiment stored_experiment(const Plan& plan,
                                   const std::vector<Device>& devices = {Device{}},
                                   int threads = 0);

}  // namespace turnbench
