#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/run/unit.h"
#include "inference/engine/engine.h"
#include "probes/probe.h"

namespace turnbench {

/// A cell of a probe, as part of a unit.
struct ProbeCell {
  std::string key;
  const ProbeSpec* probe = nullptr;
};

/// The most expensive input that a probe of the cells requires.
ProbeInfo::Input required_input(const std::vector<ProbeCell>& cells);

/// The distinct methods that probes of the cells name, by their canonical text.
std::map<std::string, const Method*> methods_beside(const std::vector<ProbeCell>& cells);

/// True if the method prefills a prompt in parts, each through all layers before the next; full
/// attention then needs a separate pass.
bool divides_prompts(const Method& method);

/// Dialogues at one position, and the probes that measure them together: one dialogue, or all for
/// probes that compare dialogues.
struct ProbeUnit {
  std::vector<const Dialogue*> dialogues;
  std::vector<ProbeCell> cells;
  Answers answers = Answers::kOwn;
  std::size_t model = 0, dataset = 0;  ///< indices in the plan's experiment
  std::string key = {};                ///< as in `Plan`
};

/// Runs a unit on one engine, with full attention.  Each turn is measured on the dialogue up to
/// this turn: one prefill for all probes and, if one of them requires the answer, a second pass
/// over the answer's rows.  Methods that probes name run in the same passes and receive the same
/// hidden states.  If a probe fails, its error is recorded and the other probes continue.  Polls
/// `stop` before each prompt and each decode step, and abandons the unit if it is not expected to
/// end in time.
UnitResult run_probes(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                      const ProbeUnit& unit, const StopTime& stop = {});

}  // namespace turnbench
