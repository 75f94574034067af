#pragma once

#include <string>
#include <vector>

#include "harness/unit/unit.h"
#include "inference/engine.h"
#include "probes/probe.h"

namespace turnbench {

/// One probe's part of a unit.
struct ProbeCell {
  std::string key;
  const ProbeSpec* probe = nullptr;
};

/// What the most demanding one of the cells' probes sees.
ProbeInfo::Sees sees_of(const std::vector<ProbeCell>& cells);

/// Dialogues under the probes that look at them together: one dialogue, or all that are compared.
struct ProbeUnit {
  std::vector<const Dialogue*> dialogues;
  std::vector<ProbeCell> cells;
  Answers answers = Answers::kOwn;
};

/// Runs a unit on one engine.  Every turn is measured on the whole dialogue up to it, under full
/// attention: one prefill for all probes and, where one of them sees the answer, a second pass over
/// the answer's rows.  A probe that fails is recorded with its error, and the others go on.
UnitResult run_probes(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                      const ProbeUnit& unit);

}  // namespace turnbench
