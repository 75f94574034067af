#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/store/record.h"
#include "harness/unit/conversation.h"
#include "inference/engine.h"
#include "methods/method.h"

namespace turnbench {

/// One cell's part of a work unit.
struct UnitCell {
  std::string key;
  const Method* method = nullptr;
  History history = History::kReprefill;
  Answers answers = Answers::kOwn;
};

/// One dialogue, at one position, in all cells that may share its computation.
struct WorkUnit {
  const Dialogue* dialogue = nullptr;
  std::vector<UnitCell> cells;
};

/// A record of each turn of a dialogue that failed in a cell.
std::vector<Record> failed_records(const std::string& cell, const Dialogue& dialogue,
                                   const Error& error);

/// What a unit gave, and what it cost.
struct UnitResult {
  std::vector<Record> records;
  std::vector<ScoreValue> scores;  ///< of ok records, where a probe measured them
  std::int64_t prefilled_tokens = 0, decoded_tokens = 0;

  void add(UnitResult part);
};

/// Bounds of what runs at the same time: more units fill the decode steps, fewer keep the memory,
/// and what a crash loses, small.
constexpr std::size_t kUnitsAtOnce = 4;
constexpr std::int64_t kTokensAtOnce = 32768;  ///< of their contexts, roughly

/// Runs the units that `next` gives on one engine, some at the same time, and calls `done` with
/// each as soon as it has ended, also while others run on; no more are begun when `next` gives
/// none. Cells that prefill alike share it; the branches of all units decode as one batch.  Sharing
/// changes cost, never results.  A cell that fails is recorded with its error, and the others go
/// on; what `next` and `done` throw is passed on.
void run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
               const std::function<std::optional<WorkUnit>()>& next,
               const std::function<void(const WorkUnit&, UnitResult)>& done);

/// The same for units that are at hand; results in the order in which the units ended.
UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<WorkUnit>& units);

/// Tokens of a dialogue's contexts, roughly: what kTokensAtOnce counts.
std::int64_t rough_tokens(const Dialogue& dialogue);

}  // namespace turnbench
