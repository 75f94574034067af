#pragma once

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

/// The methods that probes of the cells name, each once, by their canonical text.
std::map<std::string, const Method*> methods_beside(const std::vector<ProbeCell>& cells);

/// Whether a method's prompts go in parts, each through all layers before the next one: full
/// attention then goes beside it once more.
bool divides_prompts(const Method& method);

/// Dialogues, and the probes that measure them together: one dialogue, or all for probes that
/// compare dialogues.
struct ProbeUnit {
  std::vector<const Dialogue*> dialogues;
  std::vector<ProbeCell> cells;
  Answers answers = Answers::kOwn;
};

/// Runs a unit on one engine, with full attention.  Each turn is measured on the whole dialogue up
/// to it: one prefill for all probes and, if one of them requires the answer, a second pass over
/// the answer's rows.  Methods that probes name run beside it, in the same passes and from the same
/// hidden states.  If a probe fails, its error is recorded and the others go on.
UnitResult run_probes(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                      const ProbeUnit& unit);

}  // namespace turnbench
