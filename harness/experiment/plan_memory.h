#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/experiment/prompt_lengths.h"
#include "harness/run/sharing.h"
#include "inference/devices/devices.h"

namespace turnbench {

/// What a plan assumes about the methods' own answers in histories.
enum class HistoryAnswers {
  kAgree,  ///< all methods give the same answers, equal to the gold ones
  kDiffer  ///< no two methods give the same answer
};

/// A turn of a unit as memory planning expects it to run.
struct PlannedTurn {
  std::vector<UnitCell> cells;  ///< of the unit, then full attention's that fidelity adds
  std::size_t recorded = 0;     ///< number of cells of the unit
  bool fidelity = false;
  TurnSharing sharing;  ///< of `cells`

  bool is_recorded(std::size_t cell) const { return cell < recorded; }
};
PlannedTurn plan_turn(const Unit& unit, std::size_t turn, HistoryAnswers answers, bool isolated,
                      std::optional<Along> fidelity);

/// Bytes that a worker needs in addition to the weights, for its largest batch of a model's units:
/// keys and values, and the engine's scratch memory in each stage (one stage per device).  If
/// histories contain the methods' own answers, methods share the prefill only while their answers
/// agree.  The units are shared by `workers`.
struct WorkerBytes {
  std::size_t if_answers_agree = 0;   ///< all methods give the same answers
  std::size_t if_answers_differ = 0;  ///< no two methods give the same answer
};
WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths, int workers = 1);
/// The same for a worker that runs only this unit.
WorkerBytes unit_bytes(const Plan& plan, const Unit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths);
WorkerBytes unit_bytes(const Plan& plan, const ProbeUnit& unit, std::span<const Device> devices,
                       PlannedLengths& lengths);

}  // namespace turnbench
