#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/conversation.h"
#include "harness/store.h"
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

/// Runs units together, as one batch on one engine.  Cells that prefill alike share it; all
/// branches decode as one batch.  Sharing changes cost, never results.  A cell that fails is
/// recorded with its error, and the others go on.
UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<WorkUnit>& units);

}  // namespace turnbench
