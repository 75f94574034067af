#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"
#include "harness/store/claims.h"

namespace turnbench {

/// The units of one model of a plan, in order.  Each is claimed before it is handed out, so that
/// several processes on one store share the work.  Thread-safe.
class WorkQueue {
 public:
  /// How units of isolated experiments are handed out.
  enum class Parts { kUnits, kCells };
  WorkQueue(const Plan& plan, std::size_t model, Claims& claims, Parts parts);

  /// The next unit without the cells whose results another process has stored meanwhile, or
  /// nullopt.
  std::optional<Unit> take();
  /// The next unit of probes, in the same way.
  std::optional<ProbeUnit> take_probes();
  /// Ends the claim on a unit whose results are stored, or that is abandoned.
  void release(const std::string& unit) { claims_.release(unit); }

  /// True if units remain that other processes have claimed.  They are handed out again from now
  /// on.
  bool retry_claimed();
  /// True if no unit is left to be handed out, now or later.
  bool is_empty();
  /// The number of units that other processes have completed since the last call.
  std::size_t completed_elsewhere();

 private:
  /// Claims a unit, and drops its cells with results.  Returns false if nothing of it is to be run
  /// now.
  template <typename AnyUnit>
  bool begin(AnyUnit& unit, const std::vector<const Dialogue*>& dialogues,
             std::deque<AnyUnit>& claimed);
  bool has_results(const std::string& cell, const std::vector<const Dialogue*>& dialogues);

  std::mutex mutex_;
  Claims& claims_;
  const bool splits_;
  std::map<std::string, std::string> methods_;  ///< canonical methods, by cell
  std::deque<Unit> units_, claimed_units_;      ///< to be handed out; claimed by other processes
  std::deque<Unit> parts_;                      ///< of a unit whose cells run one by one
  std::deque<ProbeUnit> probe_units_, claimed_probe_units_;
  std::size_t completed_ = 0;
};

}  // namespace turnbench
