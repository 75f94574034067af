#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "harness/run/conversation.h"
#include "harness/store/record.h"
#include "inference/engine/engine.h"
#include "methods/method.h"

namespace turnbench {

/// A cell as part of a unit.
struct UnitCell {
  std::string key;
  const Method* method = nullptr;
  History history = History::kReprefill;
  Answers answers = Answers::kOwn;
};

/// One dialogue, at one position, in all cells that may share its computation.  A planned unit runs
/// as a whole, or one cell at a time.
struct Unit {
  const Dialogue* dialogue = nullptr;
  std::vector<UnitCell> cells;
  std::size_t model = 0, dataset = 0;  ///< indices in the plan's experiment
  bool last_part = true;               ///< false: other cells of the planned unit run later
  std::string key = {};                ///< of the planned unit, as in `Plan`

  /// One unit for each cell, in order.
  std::vector<Unit> split() const { return split(cells.size()); }
  /// At most `parts` units with about equally many of the cells, in order.
  std::vector<Unit> split(std::size_t parts) const;
};

/// Records for all turns of a dialogue that failed in a cell.
std::vector<Record> failed_records(const std::string& cell, const Dialogue& dialogue,
                                   const Error& error);

/// The results and the cost of a unit.
struct UnitResult {
  std::vector<Record> records;
  std::vector<ScoreValue> scores;  ///< values of probes and of fidelity, for ok records
  std::int64_t prefilled_tokens = 0, decoded_tokens = 0;
  double engine_seconds = 0;  ///< its share of the time of prefills and decode steps
  std::string lost_device;    ///< why the engine's device is unusable for the rest of the process;
                              ///< empty if it works
  bool abandoned = false;     ///< the unit did not end: it has no result
  std::string batch_error;    ///< an error of cells that ran together, and of none that ran alone,
                              ///< other than of memory: a defect of the harness; else empty

  void add(UnitResult part);
  /// Whether there is a record with this status.
  bool has(Record::Status status) const;
};

/// Limits on units that run at the same time.  More units make larger decode batches; fewer units
/// need less memory and lose less in a crash.
constexpr std::size_t kMaxConcurrentUnits = 4;
constexpr std::int64_t kMaxConcurrentTokens = 32768;  ///< as `estimate_context_tokens`
/// Decode steps between the starts of two units that take `steps` each: slightly less than an even
/// distance, so that there is always a next unit.
constexpr std::size_t steps_between_units(std::size_t steps) {
  return (3 * steps + 4 * kMaxConcurrentUnits - 1) / (4 * kMaxConcurrentUnits);
}

/// Tells a run to stop: nullopt while it goes on, then the time by which units must end.
using StopTime = std::function<std::optional<Clock::time_point>()>;

/// Where units come from.
struct UnitSource {
  /// The next unit, for which the caller may have to wait; nullopt: none is left now.
  std::function<std::optional<Unit>()> next;
  /// Requests the next unit, and returns whether `next` would return without waiting.
  std::function<bool()> request = [] { return true; };
};

/// Runs units on one engine, several at the same time.  Takes units from `source` until it has none
/// (and waits for one only when it is due to begin), and calls `done` as soon as a unit has ended,
/// while others may still run.  Cells with the same prefill share it; the branches of all units
/// decode as one batch.  Sharing affects cost, never results.  If units fail together, each runs
/// again alone, and one that fails alone runs in halves: the error of a cell that fails alone is
/// recorded, and one that no cell has alone is a `batch_error`.  If there was too little memory,
/// later units run in as many parts as had enough.  If the device is lost, all cells that ran
/// together are recorded as failed, and no further unit runs. Polls `stop` before each turn and
/// each decode step: once it gives a time, no unit starts, and units that are not expected to end
/// by this time are abandoned (`done` is not called). Exceptions of `source` and `done` are
/// propagated.
void run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
               const UnitSource& source, const std::function<void(const Unit&, UnitResult)>& done,
               const StopTime& stop = {});

/// As above, for a list of units.  The results are in the order in which the units ended.
UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<Unit>& units, const StopTime& stop = {});

/// A rough estimate of the tokens in a dialogue, for kMaxConcurrentTokens.
std::int64_t estimate_context_tokens(const Dialogue& dialogue);

}  // namespace turnbench
